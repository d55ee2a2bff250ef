"""IAP beside a Performer: the same scores, the same selection, and what the table says."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from docs.figures.studies import performer
from docs.figures.studies.performer import PART, PerformerConfig, networks, write_table
from pixelgait.export.markdown_sections import markers
from pixelgait.robot.errors import UserError


@pytest.mark.parametrize("patch", [1, 4])
def test_a_performer_of_the_same_weights_selects_the_same_patches(patch: int) -> None:
    iap, other = networks(32, 32, patch)
    image = torch.randint(0, 256, (4, 32, 32, 3), dtype=torch.uint8)
    with torch.no_grad():
        scores, reference = iap.encoder.scores(image), other.encoder.scores(image)
        chosen, reference_chosen = iap.encoder(image)[1], other.encoder(image)[1]
    torch.testing.assert_close(scores, reference, rtol=1e-4, atol=1e-4)
    assert (chosen != reference_chosen).float().mean() < 0.005  # ties and near ties alone


class ColdAfterOthers:
    """A graph of onnxruntime that takes long when another one has run since its last run."""

    last: object = None

    def run(self, outputs: None, inputs: dict[str, object]) -> None:
        time.sleep(0.02 * (ColdAfterOthers.last is not self))
        ColdAfterOthers.last = self


def test_what_ran_before_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performer, "single_thread_session", lambda _: ColdAfterOthers())
    monkeypatch.setattr(performer, "LEAST_RUNS", 2)
    assert max(performer.in_turns(networks(32, 32, 16), 32, 32, 0.01)) < 10.0


def test_times_by_size_and_patch_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    with pytest.raises(UserError, match="no lines"):
        write_table(PerformerConfig(page=page))
    page.write_text("\n".join(markers(PART, PART)))
    monkeypatch.setattr(performer, "SIZES", ((32, 32),))
    monkeypatch.setattr(performer, "PATCHES", (8, 16))
    write_table(PerformerConfig(seconds=0.01, page=page))
    rows = [line.split("|")[1:3] for line in page.read_text().splitlines() if line.startswith("|")]
    assert [row[0].strip() for row in rows] == ["patch", "---", "8", "16"]
    for _, cell in rows[2:]:
        ms, ratio = (float(word) for word in cell.replace("(", "").replace(")", "").split())
        assert 0.0 < ms < 100.0
        assert 0.01 < ratio < 100.0
