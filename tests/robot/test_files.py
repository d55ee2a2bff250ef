"""Files: atomic replacement, unchanged permissions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pixelgait.robot.errors import UserError
from pixelgait.robot.files import replacing, require_writable, write_atomic


@pytest.fixture
def private() -> Iterator[None]:
    """A user whose new files are private."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_an_unfinished_file_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "walk.rrd"

    def write(text: str, error: str = "") -> None:
        with replacing(path) as aside:
            aside.write_text(text)
            if error:
                raise UserError(error)

    write("all")
    with pytest.raises(UserError, match="no room"):
        write("half", "no room")
    assert path.read_text() == "all"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_permissions_of_a_replaced_file_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "new.json"
    write_atomic(path, b"first")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(mode)
    write_atomic(path, b"second")
    assert path.stat().st_mode & 0o777 == mode
    assert path.read_bytes() == b"second"


def test_a_folder_made_for_an_output_file_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "figures.json"
    for _ in range(2):
        require_writable(path, "json")
    assert capsys.readouterr().err == f"--json {path}: made folder {path.parent}\n"


def test_the_error_of_an_unwritable_file_names_that_file() -> None:
    path = Path("/proc/figures.json")
    with pytest.raises(OSError, match="No such file") as raised:
        require_writable(path)
    assert raised.value.filename == str(path)
