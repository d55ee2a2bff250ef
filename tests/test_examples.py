"""The examples: what they say works, in short form."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pixelgait.export.walkers.network import runner
from pixelgait.export.walkers.options import Told
from pixelgait.export.walkers.reading import read_walker
from pixelgait.policies.evaluation.evaluate import evaluate
from pixelgait.policies.evaluation.options import EvalConfig
from pixelgait.robot.bundle import SHIPPED
from pixelgait.robot.errors import UserError
from pixelgait.robot.spec import GO2
from tests.conftest import child_environment
from tests.helpers import change_contract
from tests.test_architecture import ROOT

EXAMPLES = ROOT / "examples"
CPP = EXAMPLES / "cpp"
# Where releases and distributions put the header; the library is that of the wheel.
INCLUDES = ("/usr/local/include", "/usr/local/include/onnxruntime", "/usr/include")
INCLUDES += ("/usr/include/onnxruntime", "/usr/include/onnxruntime/core/session")
compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


@pytest.fixture
def ppo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("stable_baselines3")
    spec = importlib.util.spec_from_file_location("ppo_steer", EXAMPLES / "ppo_steer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_ppo_trains_exports_and_evaluates_by_itself(tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    line = [sys.executable, str(EXAMPLES / "ppo_steer.py"), "--out", "ppo", "--steps", "128"]
    done = subprocess.run(
        [*line, "--robots", "2", "--episodes", "1"],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    (head,) = (row for row in printed if row.startswith("ppo/bundle ("))
    assert "on a1, task forward, scene " in head
    assert "success_rate" in done.stdout
    assert printed[-1] == "1 episodes, seeds 10000 to 10000"
    assert (tmp_path / "ppo" / "ppo.zip").is_file()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--seconds nan", "--seconds is nan"),
        ("--seconds 0.1", "--seconds is 0.1, expected 0.3"),
        ("--seed -1", "--seed is -1"),
        ("--seed 10000", "--seed is 10000, expected 0 to 8999"),
        ("--seed 8993", "with 8 robots: the last seed is 9000, expected at most 8999"),
        ("--steps 0", "--steps is 0"),
        ("--robots 0", "--robots is 0"),
        ("--episodes 0", "--episodes is 0"),
        ("--encoder ear", "--encoder: unknown encoder 'ear'"),
        ("--device cuda", "device cuda: torch"),
        ("--out /dev/null", "/dev/null"),
        ("--scene gone.py", "gone.py is missing"),
    ],
)
def test_invalid_ppo_options_are_one_line(
    ppo: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ppo_steer.py", *option.split()])
    with pytest.raises((UserError, OSError)) as refused:
        ppo.main(ppo.parse(ppo.Options, "ppo_steer.py"))
    assert words in str(refused.value)


def test_the_exported_ppo_policy_equals_its_network(ppo: ModuleType, tmp_path: Path) -> None:
    model = ppo.train(ppo.Options(out=tmp_path, steps=128, robots=2))
    seen = model.get_env().reset()
    wanted, _ = model.predict(seen, deterministic=True)
    network = ppo.high_level_of(model, ppo.Options().encoder)
    for image, action in zip(seen["image"], wanted, strict=True):
        decision = network.decide(image.transpose(1, 2, 0))
        np.testing.assert_allclose(decision.latent, action, atol=1e-5)
        assert decision.duration_steps == ppo.STEPS_OF_AN_ACTION


@pytest.mark.slow
def test_a_cloned_gait_is_a_walker_that_the_importer_reads(tmp_path: Path) -> None:
    """In the two files that Isaac Lab would write, and as TorchScript of the same actions."""
    line = [sys.executable, str(EXAMPLES / "clone_gait.py"), "--out", "own", "--steps", "2"]
    done = subprocess.run(
        [*line, "--rounds", "2", "--robots", "2", "--seconds", "2"],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "round 1: " in done.stdout
    own = tmp_path / "own"
    actions = []
    for name in ("policy.onnx", "policy.pt"):
        walker, network = read_walker(own / name, [own / "deploy.yaml"], GO2, Told())
        assert not walker.notes
        actions.append(runner(network)(np.linspace(-1.0, 1.0, 45)))
    np.testing.assert_allclose(*actions, atol=1e-5)


@pytest.mark.slow
def test_the_wall_blocks_the_straight_path_and_can_be_passed() -> None:
    """The straight path is blocked; the map-aware teacher reaches the goal."""
    walks = {
        baseline: evaluate(
            EvalConfig(
                "walk", scene=str(EXAMPLES / "wall.py"), baseline=baseline, episodes=3, seconds=20.0
            )
        )
        for baseline in (None, "teacher")
    }
    assert walks[None]["success_rate"] == 0.0
    assert walks["teacher"]["success_rate"] == 1.0


@pytest.mark.slow
def test_the_teacher_finds_a_path_through_the_forest() -> None:
    forest = EvalConfig("walk", scene=str(EXAMPLES / "forest.py"), episodes=2, seconds=20.0)
    assert evaluate(replace(forest, baseline="teacher"))["collision_free_rate"] == 1.0
    assert evaluate(forest)["contact_free_rate"] == 0.0


def compiled(folder: Path, source: Path, *options: str) -> Path:
    program = folder / "program"
    line = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", str(source), *options]
    subprocess.run([*line, "-o", str(program)], check=True)
    return program


HASH = """
#include <iostream>
#include <iterator>
#include "json.h"
#include "sha256.h"
int main() {
    std::string text(std::istreambuf_iterator<char>(std::cin), {});
    const char* p = text.c_str();
    Json contract = parse(p);
    contract.members.erase("\\"sha256\\"");
    std::cout << sha256(contract.canonical());
}
"""


@compiler
def test_the_contracts_hash_needs_no_python(tmp_path: Path) -> None:
    source = tmp_path / "hash.cpp"
    source.write_text(HASH)
    program = compiled(tmp_path, source, f"-I{CPP}")
    for contract in SHIPPED.glob("*/contract.json"):
        done = subprocess.run([program], input=contract.read_bytes(), capture_output=True)
        assert done.stdout.decode() == json.loads(contract.read_text())["sha256"]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like that of a release of onnxruntime: headers, and the wheel's library."""
    import onnxruntime

    places = (os.environ.get("ONNXRUNTIME_INCLUDE", ""), *INCLUDES)
    headers = [place for place in places if Path(place, "onnxruntime_c_api.h").is_file()]
    if not headers:
        pytest.skip("no onnxruntime_c_api.h: name its folder in ONNXRUNTIME_INCLUDE")
    folder = tmp_path_factory.mktemp("cpp")
    (folder / "lib").mkdir()
    (folder / "include").symlink_to(Path(headers[0]).resolve())
    (library,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.1.*")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (folder / "lib" / name).symlink_to(library)
    return folder


@pytest.fixture(scope="module")
def checker(release: Path) -> list[str]:
    """The program that checks a bundle, with the environment it runs in."""
    linked = (f"-I{release}/include", f"-L{release}/lib", "-lonnxruntime")
    program = compiled(release, CPP / "check_bundle.cpp", *linked)
    return ["env", f"LD_LIBRARY_PATH={release}/lib", str(program)]


def checked(checker: list[str], bundle: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*checker, str(bundle)], capture_output=True, text=True, env=child_environment()
    )


def copied(folder: Path) -> Path:
    return shutil.copytree(SHIPPED / "walk", folder / "bundle")


def hash_again(bundle: Path, file: str) -> None:
    """Make the contract one for a file that was changed."""
    digest = hashlib.sha256((bundle / file).read_bytes()).hexdigest()
    change_contract(bundle, lambda contract: contract["files"].update({file: digest}))


def change_golden(bundle: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the golden vector; the contract's hash of it is the one before."""
    golden = json.loads((bundle / "golden.json").read_text())
    edit(golden)
    (bundle / "golden.json").write_text(json.dumps(golden))


@compiler
def test_the_cpp_program_builds_with_its_documented_line(release: Path, tmp_path: Path) -> None:
    """Builds with the command in the file's header; the program finds its library."""
    for folder in ("examples", "policies"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    lines = re.findall("^//     (.*)$", (CPP / "check_bundle.cpp").read_text(), re.MULTILINE)
    assert len(lines) == 2
    done = subprocess.run(
        ["bash", "-ec", "\n".join(lines)],
        cwd=tmp_path,
        env={**os.environ, "ORT": str(release)},
        capture_output=True,
        text=True,
    )
    assert "policies/pretrained/iap is as it was exported" in done.stdout, done.stderr


@compiler
def test_a_cpp_program_reproduces_the_golden_vector(checker: list[str]) -> None:
    for contract in SHIPPED.glob("*/contract.json"):
        done = checked(checker, contract.parent)
        assert done.returncode == 0, done.stderr
        assert "high_level.onnx: golden vector within" in done.stdout
        assert "low_level.onnx: golden vector within" in done.stdout


@compiler
def test_the_cpp_program_refuses_invalid_numbers(checker: list[str], tmp_path: Path) -> None:
    """One joint is not a number, those before and behind it are as they should be."""
    onnx = pytest.importorskip("onnx")
    bundle = copied(tmp_path)
    model = onnx.load(bundle / "low_level.onnx")
    addend = np.zeros(12, np.float32)
    addend[5] = np.nan
    (last,) = (node for node in model.graph.node if "joint_targets" in node.output)
    last.output[list(last.output).index("joint_targets")] = "sound"
    model.graph.initializer.append(onnx.numpy_helper.from_array(addend, "addend"))
    model.graph.node.append(onnx.helper.make_node("Add", ["sound", "addend"], ["joint_targets"]))
    onnx.save(model, bundle / "low_level.onnx")
    hash_again(bundle, "low_level.onnx")
    done = checked(checker, bundle)
    assert "low_level.onnx: golden vector within nan" in done.stdout
    assert (done.returncode, done.stderr) == (1, "error: low_level.onnx: beyond the tolerance\n")


@compiler
@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda golden: golden.clear(), "key 'high_level.onnx' is missing"),
        (lambda golden: golden.pop("high_level.onnx"), "key 'high_level.onnx' is missing"),
        (
            lambda golden: golden["low_level.onnx"]["outputs"].pop("joint_targets"),
            'golden.json: low_level.onnx has other outputs than in the contract: "joint_targets"',
        ),
        (
            lambda golden: golden["low_level.onnx"]["outputs"].update(joint_targets=[0.0, 0.8]),
            "joint_targets: 2 golden values, 12 from the graph",
        ),
        (
            lambda golden: golden["low_level.onnx"]["outputs"].update(joint_targets=[None] * 12),
            "JSON: null is no number",
        ),
    ],
)
def test_the_cpp_program_checks_every_tensor(
    checker: list[str], tmp_path: Path, edit: Callable[[dict[str, Any]], object], message: str
) -> None:
    """A golden vector with missing tensors must not pass."""
    bundle = copied(tmp_path)
    change_golden(bundle, edit)
    hash_again(bundle, "golden.json")
    done = checked(checker, bundle)
    assert (done.returncode, done.stderr) == (1, f"error: {message}\n")


@compiler
def test_the_cpp_program_requires_a_hash_of_every_file(checker: list[str], tmp_path: Path) -> None:
    bundle = copied(tmp_path)
    change_contract(bundle, lambda contract: contract["files"].clear())
    done = checked(checker, bundle)
    assert (done.returncode, done.stderr) == (1, "error: key 'high_level.onnx' is missing\n")


@compiler
def test_the_cpp_program_reads_denormal_numbers(checker: list[str], tmp_path: Path) -> None:
    bundle = copied(tmp_path)
    change_golden(
        bundle, lambda g: g["high_level.onnx"]["outputs"]["attention"][0].__setitem__(0, 1e-40)
    )
    hash_again(bundle, "golden.json")
    done = checked(checker, bundle)
    assert (done.returncode, done.stderr) == (0, "")


@compiler
@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda graph: graph["inputs"]["image"].update(shape=[32, 32, 1]),
            "input 'image' is uint8 [32, 32, 1] in the contract, uint8 [32, 32, 3] in the graph",
        ),
        (
            lambda graph: graph["outputs"].update(speed=graph["outputs"].pop("latent")),
            "output 'latent' is missing in the contract, float32 [2] in the graph",
        ),
        (
            lambda graph: graph["inputs"].update(goal={"type": "float32", "shape": [2]}),
            'input "goal" is missing in the graph',
        ),
    ],
)
def test_the_cpp_program_refuses_mismatching_bundles(
    checker: list[str], tmp_path: Path, edit: Callable[[dict[str, Any]], object], message: str
) -> None:
    bundle = copied(tmp_path)
    off = json.loads((bundle / "golden.json").read_text())["low_level.onnx"]["outputs"]
    off["joint_targets"][3] += 0.001
    change_golden(bundle, lambda golden: golden["low_level.onnx"].update(outputs=off))
    assert "error: golden.json is not the one" in checked(checker, bundle).stderr
    hash_again(bundle, "golden.json")
    done = checked(checker, bundle)
    assert done.returncode == 1
    assert done.stderr == "error: low_level.onnx: beyond the tolerance\n"
    change_contract(bundle, lambda contract: edit(contract["graphs"]["high_level.onnx"]))
    done = checked(checker, bundle)
    assert done.returncode == 1
    assert done.stderr == f"error: high_level.onnx: {message}\n"
    contract = bundle / "contract.json"
    contract.write_text(contract.read_text().replace("0.01", "0.02", 1))
    assert "error: contract.json was changed" in checked(checker, bundle).stderr
