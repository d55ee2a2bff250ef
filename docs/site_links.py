"""MkDocs hook: links of the documentation that leave the site.

Pages link to files of the repository, such as cards and examples, as GitHub shows them. On the
site such a link leads to `repo_url`, or becomes the file's path where there is none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page's text with links to files that are not in the site replaced.

    Raises:
        FileNotFoundError: a link leads nowhere.
    """
    root = Path(config.config_file_path).parent
    folder = Path(page.file.abs_src_path).parent

    def replaced(link: re.Match[str]) -> str:
        label, target, _ = link.groups()
        if ":" in target:
            return link[0]
        path = (folder / target).resolve()
        if not path.exists():
            raise FileNotFoundError(f"{page.file.src_path} links to {target}")
        within = path.relative_to(root)
        if within.parts[0] == "docs":
            file = files.get_file_from_path(within.relative_to("docs").as_posix())
            if file is not None and file.inclusion.is_included():
                return link[0]
        if config.repo_url:
            return f"[{label}]({config.repo_url.rstrip('/')}/blob/main/{within})"
        name = label.strip("`")
        return f"`{within}`" if name == within.name else f"{label} (`{within}`)"

    return LINK.sub(replaced, markdown)
