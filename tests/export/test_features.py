"""IAP's random features by their number: errors against Theorem 4.1, table and picture."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from docs.figures.studies import features
from docs.figures.studies.features import (
    ANGLES,
    LENGTH,
    PART,
    FeaturesConfig,
    relative_errors,
    write_study,
)
from pixelgait.export.markdown_sections import markers
from pixelgait.robot.errors import UserError


def test_errors_are_those_of_the_theorem() -> None:
    """Of independent vectors; within a block ours are orthogonal, which makes them smaller."""
    m, total = 10, 2.0 * LENGTH**2 * (1.0 + np.cos(math.pi * ANGLES))
    favor = np.sqrt(np.exp(total) * (1.0 - np.exp(-total)) / m)  # over the kernel
    error = relative_errors("favor", m, 1, draws=400)
    assert np.all(error < 1.1 * favor + 1e-4)
    assert np.all(error > 0.4 * favor - 1e-4)
    hybrid = relative_errors("hybrid", m, 5, draws=400)
    assert hybrid[[0, -1]].max() < 1e-4  # where it is exact
    assert hybrid[len(ANGLES) // 2] < error[len(ANGLES) // 2]
    more = relative_errors("hybrid", 32, 16, draws=400)
    assert np.all(more[1:-1] < hybrid[1:-1])


@pytest.mark.slow
def test_times_and_errors_are_written_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "KERNELS", {"hybrid (4, 1)": ("hybrid", 4, 1)})
    page, picture = tmp_path / "page.md", tmp_path / "features.png"
    config = FeaturesConfig(side=8, seconds=0.01, draws=3, page=page, picture=picture)
    with pytest.raises(UserError, match="no lines"):
        write_study(config)
    page.write_text("\n".join(markers(PART, PART)))
    write_study(config)
    rows = [line.split("|")[1:-1] for line in page.read_text().splitlines() if line[:1] == "|"]
    assert [row[0].strip() for row in rows[2:]] == ["ReLU", "hybrid (4, 1)", "brute force"]
    assert all(0.0 < float(ms) < 100.0 for _, ms, *_ in rows[2:])
    assert rows[-1][2].strip() == "-"  # it is no estimate
    assert picture.read_bytes().startswith(b"\x89PNG")
