"""The study of what networks learn from the same decisions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from docs.figures.studies import fits
from docs.figures.studies.fits import FitsConfig, write_table
from pixelgait.export.markdown_sections import markers
from pixelgait.policies.high_level import Architecture, make_high_level
from pixelgait.policies.training.imitation.fitting import Lessons, turn_error
from pixelgait.robot.errors import UserError


@pytest.mark.parametrize(("memory", "larger"), [("", 30.0), ("gru:4", 3000.0)])
def test_the_error_of_turns_is_that_of_deciding_one_after_another(
    memory: str, larger: float
) -> None:
    """Sequences in one go, a memory that begins anew with every episode."""
    network = make_high_level(Architecture("strided:channels=1", True, False, memory), 0)
    with torch.no_grad():
        network.output.weight[2] *= larger  # some turns are clipped, as on a robot
    rng = torch.Generator().manual_seed(0)
    seen = torch.randint(0, 256, (12, 32, 32, 1), dtype=torch.uint8, generator=rng)
    turns = torch.rand(12, 2, generator=rng)
    starts = torch.tensor([True, *[False] * 6, True, *[False] * 4])
    lessons = Lessons(seen, torch.tensor([[torch.inf, 0.0]]).expand(12, 2), turns, starts)
    state, squares, turned = None, [], []
    for image, turn, start in zip(seen, turns[:, 1], starts, strict=True):
        decision = network.decide(image.numpy(), state=None if start else state)
        state = decision.state
        turned.append(abs(decision.latent[1]))
        squares.append((float(turn) - decision.latent[1]) ** 2)
    assert 1.0 in turned
    assert min(turned) < 1.0
    assert turn_error(network, lessons) == pytest.approx(sum(squares) / 12, rel=1e-4)


@pytest.mark.slow
def test_networks_are_fitted_to_what_a_teacher_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "LEARNED", 2)
    monkeypatch.setattr(fits, "UNSEEN", 1)
    page, figures = tmp_path / "page.md", tmp_path / "fits.json"
    page.write_text("\n".join(markers("fits", "fits")))
    config = FitsConfig(page, figures, tmp_path / "runs", 2, networks=(fits.STEM,), workers=1)
    write_table(config)
    kept = json.loads(figures.read_text())
    assert [each["channels"] for each in kept] == [3, 4, 1]  # RGB, RGB-D, depth
    assert len({each["decisions"] for each in kept}) == 1
    assert all(0.0 < each["error"] < 1.0 for each in kept)
    before = page.read_text()
    write_table(config)  # nothing is fitted again
    assert page.read_text() == before
    assert f"| RGB-D | `{fits.STEM}` | {kept[1]['weights']} | {kept[1]['error']:.3f} |" in before
    with pytest.raises(UserError, match="--networks: choose from cnn, vit"):
        write_table(FitsConfig(page, figures, networks=("resnet",)))
