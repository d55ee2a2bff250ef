"""Report of encoder latencies: growth, ratios, summary, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from pixelgait.export.encoder_profile.command import (
    EncoderProfileConfig,
    EncoderRow,
    findings,
    profile_encoders,
    slope,
    summary,
)
from pixelgait.robot.cli.options import parse
from pixelgait.robot.errors import UserError
from tests.conftest import Command


def row(encoder: str, size: tuple[int, int], patch: int | None, p50_ms: float) -> EncoderRow:
    patches = patch and (size[0] // patch) * (size[1] // patch)
    return EncoderRow(encoder, *size, patch, patches, 1387, p50_ms, 9.0, 9.5, 7.0, 300)


ROWS = [
    *(row("iap", size, 1, 1e-4 * size[0] * size[1]) for size in ((32, 32), (64, 64), (240, 320))),
    row("iap", (240, 320), 2, 0.5),
    row("brute-force", (240, 320), 2, 250.0),
    row("cnn", (32, 32), None, 0.05),
    row("vit", (32, 32), 8, 0.2),
    row("sit", (32, 32), 8, 0.5),
]


def test_growth_and_ratios_follow_from_the_rows() -> None:
    assert findings(ROWS) == [
        "time of IAP grows with L^1.00 from L = 1024 to 76800 patches",
        "brute-force, patch 2, takes 500.0 times as long as iap, patch 2, at 240 x 320",
        "sit, patch 8, takes 2.5 times as long as vit, patch 8, at 32 x 32",
    ]
    counts = [64, 1024, 2048, 4096]
    # Fixed costs make small images look as if time hardly grew: they do not count.
    assert slope(counts, [0.9e-6 * 1024**2] + [1e-6 * n**2 for n in counts[1:]]) == pytest.approx(2)


def test_the_summary_has_a_column_per_size_and_gaps_for_missing_rows() -> None:
    lines = summary(ROWS)
    assert lines[0] == "| encoder | patch | weights | 32 x 32 | 64 x 64 | 240 x 320 |"
    assert lines[2:5] == [
        "| iap | 1 | 1387 | 0.102 | 0.41 | 7.68 |",
        "| cnn | - | 1387 | 0.05 | - | - |",
        "| sit | 8 | 1387 | 0.5 | - | - |",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--encoder resnet", "unknown encoder 'resnet', choose from iap, "),
        ("--size 48", "no images of height 48, choose from"),
        ("--seconds 0", "--seconds is 0.0, expected 0.001 to 3600"),
    ],
)
def test_unknown_encoders_and_sizes_are_refused(options: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        profile_encoders(parse(EncoderProfileConfig, "pixelgait-encoders", options.split()))


@pytest.mark.slow
def test_nothing_is_written_if_nothing_can_be_measured(command: Command, tmp_path: Path) -> None:
    done = command("pixelgait-encoders", "--encoder", "latformer", "--size", "240", "--out", "e")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: nothing was measured: none of these")
    assert not [*(tmp_path / "e").iterdir()]
