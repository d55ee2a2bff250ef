"""Bad command lines: each is refused with one clear line, never a traceback."""

from __future__ import annotations

import importlib
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pixelgait.policies.normaliser import Normaliser
from pixelgait.policies.runs.run import Checkpoint, Run
from pixelgait.policies.training.config import (
    ImitateConfig,
    TrainConfig,
    WalkConfig,
)
from pixelgait.robot.bundle import SHIPPED
from pixelgait.robot.cli.commands import main
from pixelgait.robot.errors import run_command
from tests.conftest import trotting_weights
from tests.test_architecture import ROOT

GIF = ROOT / "docs" / "walk.gif"
SCENE = """nan = float("nan")
from pixelgait.sim.world.scene import Layout, Plane, Pose, Scene
class Own(Scene):
    def __init__(self, difficulty): ...
"""
SCENES = {
    "none.py": "    fixed = (Plane(),)\n    def layout(self, rng): return None\n",
    "nan.py": "    fixed = (Plane(),)\n"
    "    def layout(self, rng): return Layout(Pose(0.0, nan, 0.0))\n",
}

# Folders where commands want to write files.
TAKEN = ("low_level.onnx", "encoders.png", "latency.json", "trajectory.npz")
WALK = Path(__file__).resolve().parent / "recordings" / "iap.mcap"
TRAIN = {
    "walk": "pixelgait-train walk --out new",
    "follow": "pixelgait-train follow --out new",
    "imitate": "pixelgait-train imitate --out new",
    "course": "pixelgait-train course --out new --low-level walk",
    "joint": "pixelgait-train joint --out new",
}
# One range per command; tests/test_options.py tests ranges, and that every number has one.
NUMBERS = [
    ("pixelgait-eval iap --episodes 0", "--episodes is 0, expected 1 to 1000000"),
    ("pixelgait-eval iap --episodes 3 --seed 4294967294", "3 episodes from --seed 4294967294 on"),
    ("pixelgait-run iap --goal nan 0", "--goal is nan"),
    ("pixelgait-run iap --goal 1 1e6", "--goal is 1000000.0"),
    ("pixelgait-sim --odom-scale 3.0", "--odom-scale is 3.0"),
    ("pixelgait-profile iap --seconds inf", "--seconds is inf, needs a finite number"),
    ("pixelgait-encoders --size 0", "--size is 0"),
    ("pixelgait-export --low-level walk --out b --seed -1", "--seed is -1"),
    ("pixelgait-export --low-level walk --out b --pitch 11", "--pitch is 11.0, expected -1.5 to"),
    ("pixelgait-robot gone.urdf", "gone.urdf is missing"),
    ("pixelgait-robot . --height 3", "--height is 3.0, expected 0.02 to 2"),
    ("pixelgait-train walk --out new --robot gone.yaml", "gone.yaml is missing"),
    ("pixelgait-sim --camera 32 0 48", "--camera is 32.0, expected -2 to 2"),
    ("pixelgait-demo --minutes nan", "--minutes is nan"),
    ("pixelgait-benchmark --at-once 20000", "--at-once is 20000"),
    (f"{TRAIN['walk']} --es.noise 0.0", "--es.noise is 0.0"),
    (f"{TRAIN['follow']} --reward.power -1.0", "--reward.power is -1.0, expected 0 to 1000"),
    (
        f"{TRAIN['follow']} --randomise --randomisation.mass 1.2 0.8",
        "--randomisation.mass is 1.2 0.8, expected LOW HIGH, 0 or more",
    ),
    (f"{TRAIN['imitate']} --dagger.students 257", "--dagger.students is 257"),
    (f"{TRAIN['course']} --contact-cost inf", "--contact-cost is inf"),
    (f"{TRAIN['joint']} --curriculum -1", "--curriculum is -1"),
    ("pixelgait-train imitate --out x --encoder strided:wide=0.3", "wide is 0.3, expected"),
    (f"pixelgait-train --recipe {GIF} --out x", "expected lines of text"),
    ("pixelgait-eval iap --camera-pitch 5 --baseline teacher", "--camera-pitch"),
    ("pixelgait-eval iap --appearance test --baseline bug", "--appearance"),
    ("pixelgait-eval walk --scene gates --baseline bug", "'gates'"),
]
# Options that would do nothing beside another, or with such a policy.
IGNORED = [
    (
        "pixelgait-eval walk --appearance test",
        "--appearance has no effect: this policy uses no images",
    ),
    ("pixelgait-eval walk --camera-pitch 5", "--camera-pitch has no effect"),
    (f"{TRAIN['walk']} --faults mixed camera-black:at=1", "--faults camera-black"),
    ("pixelgait-eval walk --faults camera-frozen:at=1", "--faults camera-frozen"),
    ("pixelgait-sim --gui --realtime", "--gui and --realtime are mutually exclusive"),
    ("pixelgait-eval walk --baseline blind", "this policy uses no images"),
    ("pixelgait-eval iap --appearance test --baseline blind", "--appearance has no effect"),
    ("pixelgait-eval iap --baseline no-goal", "this policy has no goal input"),
    ("pixelgait-eval iap --gui --workers 3", "--gui and --workers are mutually exclusive"),
    ("pixelgait-eval iap --json f.gif --video ./f.gif", "--json is the same file"),
    ("pixelgait-eval flipped --json flipped/curve.json", "what is read is the same file"),
    ("pixelgait-eval iap --scene mixture:nan.py --json ./nan.py", "what is read is the same"),
    (
        "pixelgait-eval iap --randomise --delays-from slow.json --json slow.json",
        "what is read is the same file",
    ),
    ("pixelgait-replay diary.mcap --json diary.mcap", "what is read is the same file"),
    ("pixelgait-replay diary.mcap --bundle b --json b/golden.json", "what is read is the same"),
    ("pixelgait-train walk --out new --workers 3 --cluster auto", "--workers and"),
    ("pixelgait-train --recipe iap --cluster 127.0.0.1:1", "--cluster "),  # it means no workers
    ("pixelgait-train --out short --resume --start walk", "--resume and --start are"),
    (f"{TRAIN['walk']} --es.method openai --es.top 4", "--es.top has no effect with --es.method"),
    (f"{TRAIN['walk']} --es.method cma --es.directions 1", "--es.directions is 1, --es.method cma"),
    (f"{TRAIN['imitate']} --encoder cnn --dagger.students 3", "so none compete"),
    (f"{TRAIN['imitate']} --dagger.recolour", "--dagger.recolour has no effect: no gradient"),
    (f"{TRAIN['imitate']} --dagger.rate 0.1", "--dagger.rate has no effect: only a head"),
    (f"{TRAIN['imitate']} --dagger.decay 0.9", "--dagger.decay has no effect: only a head"),
    (
        f"{TRAIN['imitate']} --memory gru:4 --dagger.batch 16",
        "--dagger.batch 16: expected one sequence of 32 or more",
    ),
    (f"{TRAIN['imitate']} --encoder iap:values=8,sparse=true,kernel=trig", "is not for sparse"),
    (f"{TRAIN['imitate']} --encoder siet:patch=32,graph=flip", "cannot tell left from right"),
    (
        f"{TRAIN['imitate']} --dagger.unrolled 64",
        "--dagger.unrolled has no effect without --memory",
    ),
    (
        f"{TRAIN['course']} --scene flat --curriculum 3",
        "--curriculum has no effect with --scene flat",
    ),
    (
        "pixelgait-eval walk --scene flat --difficulty 0.5",
        "--difficulty has no effect with --scene",
    ),
    (
        "pixelgait-eval iap --difficulty 1 --scene gibson:house",
        "no effect with --scene gibson:house",
    ),
    ("pixelgait-sim --scene flat --difficulty 1", "--difficulty has no effect with --scene flat"),
    ("pixelgait-profile slow.json --seconds 3", "--seconds has no effect on a"),
    ("pixelgait-profile iap --json f --page f", "--page f: --json is the same file"),
    ("pixelgait-profile --compare a b --json f", "--compare and --json are mutually"),
    ("pixelgait-run iap --arm", "--arm over --link ros: that link needs no --arm"),
    ("pixelgait-run iap --link go2:lo:0 --arm --dry-run", "--dry-run commands no motor"),
    ("pixelgait-run iap --duration 3 --no-autostart", "--duration has no effect with"),
]
OTHERS = [
    ('pixelgait-eval ""', "argument 1 is empty"),
    ('pixelgait-eval iap --json ""', "--json is empty"),
    ('pixelgait-train walk --out ""', "--out is empty"),
    ("pixelgait-eval iap --json .", ". is not a file"),
    ("pixelgait-eval iap --json /dev/null", "/dev/null is not a file"),
    ("pixelgait-eval iap --video film", "expected a file .mp4"),
    ("pixelgait-sim --video film", "--video film: expected a file .mp4, .gif, .png"),
    ("pixelgait-sim --video note.txt/f.mp4", "note.txt"),
    ("pixelgait-train walk --out new --video new/curve.png", "--out is the same file"),
    ("pixelgait-train --recipe walk --device cuda", "the recipe has no task imitate"),
    ("pixelgait-train --recipe rover --device cuda", "device cuda: torch"),
    ("pixelgait-train --recipe iap --out new --video note.txt/f.mp4", "note.txt"),
    ("pixelgait-eval iap --video-episodes 4", "--video-episodes has no effect without"),
    ("pixelgait-run iap --link can0", "--link can0: expected ros, velocity, ros2-control"),
    ("pixelgait-run iap --link go2:lo:x", "--link go2:lo:x: a domain is 0 to 232"),
    ("pixelgait-run iap --link go2:lo:0 --arm --auto-arm", "--arm and --auto-arm: a real robot"),
    ("pixelgait-sim --link go2:", "--link go2:: expected ros, velocity, ros2-control"),
    ("pixelgait-sim --link go2:lo", "--link go2:lo is a Go2's: expected --robot go2, not a1"),
    ("pixelgait-sim --link go2:eth77", "--link go2:eth77: there is no network interface eth77"),
    ("pixelgait-sim --gui", "--gui: there is no display"),
    ("pixelgait-profile iap --json .", ". is not a file"),
    ("pixelgait-export --low-level walk --out b --json .", ". is not a file"),
    ("pixelgait-export --low-level walk --out taken", "taken/low_level.onnx is not a file"),
    ("pixelgait-export --low-level walk --out .", ". is not empty and holds no older bundle"),
    ("pixelgait-export --low-level walk --out full", "full is not empty and holds no older bundle"),
    ("pixelgait-export --low-level walk --out odd", "odd is not empty and holds no older bundle"),
    (
        "pixelgait-export --low-level walk --out b --json b/golden.json",
        "--out b/golden.json: --json is the same file",
    ),
    ("pixelgait-export --low-level walk --out b --name a\udcff", "a\\udcff': expected UTF-8"),
    ("pixelgait-export --low-level walk --out b --name a\x07b", "'a\\x07b': expected printable"),
    ("pixelgait-encoders --out taken", "taken/encoders.png is not a file"),
    (f"pixelgait-encoders --out new --page {GIF}", "walk.gif: no page of text"),
    ("pixelgait-run iap --out taken", "taken/latency.json is not a file"),
    ("pixelgait-run iap --record walk.bag", "--record walk.bag: expected a file .mcap"),
    ("pixelgait-run iap --record diary.mcap", "--record diary.mcap: the existing file is no"),
    ("pixelgait-run iap --record note.txt/w.mcap", "note.txt"),
    ("pixelgait-sim --out taken", "taken/trajectory.npz is not a file"),
    ("pixelgait-benchmark --json .", ". is not a file"),
    ("pixelgait-train walk --out note.txt", "note.txt"),
    ("pixelgait-train follow --start walk --out o", "was trained with --mirror: continue with it"),
    ("pixelgait-train walk --out full", "full holds other files (thesis.tex)"),
    ("pixelgait-train walk --out /proc/run", "/proc/run"),
    ("pixelgait-run iap --out /proc/run", "/proc/run"),
    ("pixelgait-demo --out /proc/run", "/proc/run"),
    (
        "pixelgait-export --low-level gone --out b",
        "a bundle with a low_level run beside it (shipped: walk, walk-go2, walk-laikago, ",
    ),
    ("pixelgait-export --low-level walk --high-level sit --encoder iap --out b", "give one"),
    ("pixelgait-sim --robot spot", "unknown robot 'spot'"),
    ("pixelgait-sim --body gazebo", "unknown body 'gazebo', choose from pybullet, mujoco"),
    ("pixelgait-demo --robot spot", "unknown robot 'spot', choose from a1, mini_cheetah"),
    ("pixelgait-demo --out full", "full is not empty and holds no older demo"),
    ("pixelgait-eval nowhere", "bundle 'nowhere'"),
    ("pixelgait-eval note.txt", "'note.txt' is a file, expected a folder with contract.json"),
    (
        f"pixelgait-run {SHIPPED}/walk/golden.json",
        f"expected a folder with contract.json, as {SHIPPED}/walk",
    ),
    ("pixelgait-profile flipped", "'flipped' is a training run"),
    ("pixelgait-replay gone.mcap", "gone.mcap"),
    ("pixelgait-replay note.txt", "note.txt"),
    ("pixelgait-view gone.mcap", "gone.mcap: No such file"),
    ("pixelgait-view note.txt", "note.txt: no recording of pixelgait-run"),
    (f"pixelgait-view {WALK} --bundle nowhere", "bundle 'nowhere'"),
    (
        f"pixelgait-view {WALK} --bundle walk",
        "there is no display (DISPLAY is not set): --save FILE.rrd",
    ),
    ("pixelgait-view live", "there is no display (DISPLAY is not set): --save FILE.rrd"),
    ("pixelgait-view full --save w.rrd", "full: Is a directory"),
    (f"pixelgait-view {WALK} --save w.rrd", "lacks contract.json, name a --bundle"),
    (f"pixelgait-view {WALK} --save /proc/w.rrd", "/proc"),
    (f"pixelgait-replay {WALK} --bundle iap-depth", "bundle 'iap-depth' expects (32, 48, 1)"),
    ("pixelgait-eval iap --scene none.py", "layout: it returns None, expected a Layout"),
    ("pixelgait-eval iap --scene nan.py", "layout: Pose.y is not finite"),
    ("pixelgait-eval iap --scene gone.py", "gone.py is missing"),
    ("pixelgait-eval iap --scene moon", "unknown scene 'moon'"),
    ("pixelgait-eval iap --scene gibson:gone", "gone"),
    ("pixelgait-eval iap --body gazebo", "unknown body 'gazebo'"),
    ("pixelgait-eval iap --robot spot", "unknown robot 'spot'"),
    ("pixelgait-eval iap --robot go2", "made for robot 'a1', not for 'go2'"),
    ("pixelgait-eval iap --task follow", "--task follow"),
    ("pixelgait-eval iap --faults camera-tired", "is not a fault"),
    ("pixelgait-eval iap --faults camera-frozen:at=nan", "each at least 0"),
    ("pixelgait-eval iap --faults camera-frozen:at=1,at=2", "has at twice"),
    (
        "pixelgait-eval iap --faults camera-black:by=3",
        "by is the delay of kind late, black has none",
    ),
    ("pixelgait-eval iap --faults imu-nan:for=0", "over before it begins: for is 0"),
    (
        "pixelgait-eval iap --seconds 10 --faults imu-nan:at=20",
        "--faults imu-nan begins after 20 s, an episode is over after 10",
    ),
    ("pixelgait-eval iap --scene mixture:", "mixture:: a kind is empty, expected mixture:KIND"),
    *[
        (f"{line} --goal --scene flat", "--goal: scene 'flat' has no goal position, as rooms has")
        for line in (TRAIN["imitate"], TRAIN["course"], TRAIN["joint"])
    ],
    (
        f"{TRAIN['imitate']} --goal --ahead --scene rooms",
        "--goal and --ahead are mutually exclusive",
    ),
    (f"{TRAIN['imitate']} --approach --memory gru:8", "--approach needs --goal and --memory"),
    (f"{TRAIN['imitate']} --map", "--encoder: a map needs depth: channels of 1 or 4"),
    (
        f"{TRAIN['imitate']} --map --encoder strided:channels=1",
        "--encoder: images of 32 x 32, a map needs more than the map's 32 rows, 48 columns at most",
    ),
    (f"{TRAIN['imitate']} --memory gru", "error: --memory: memory 'gru', expected gru:SIZE or"),
    (f"{TRAIN['imitate']} --encoder ear", "error: --encoder: unknown encoder 'ear'"),
    (f"{TRAIN['imitate']} --encoder iap:patch=4,patch=8", "option 'patch' is given twice"),
    (
        f"{TRAIN['imitate']} --mirror --memory gru:64 --encoder strided:normalise=true "
        "--start strided-looks",
        "as many weights, of another network: it was trained with --encoder "
        "strided:standardise=true,normalise=true --memory gru:64, this run has --encoder "
        "strided:normalise=true --memory gru:64: give the same",
    ),
    (
        f"{TRAIN['imitate']} --mirror --start rover",
        "trained with --encoder strided:channels=1 --memory gru:64 --ahead, this run has "
        "--encoder iap: give the same",
    ),
    ("pixelgait-eval iap --randomise --delays-from gone.json", "error: gone.json is missing"),
    ("pixelgait-profile iap --compare a b", "iap and --compare: give a bundle or two reports, not"),
    (f"{TRAIN['course']} --ahead --scene rooms", "--ahead: scene 'rooms' has a goal"),
    ("pixelgait-eval rover --scene rooms", "--scene rooms has a goal position, the policy only"),
    ("pixelgait-eval iap --delays-from note.txt", "--delays-from"),
    ("pixelgait-eval iap --randomise --delays-from note.txt", "note.txt"),
    ("pixelgait-export --low-level iap --out b", "iap"),
    ("pixelgait-train walk --out new --robot spot", "unknown robot 'spot', choose from a1"),
    ("pixelgait-train course --out new --low-level walk --robot go2", "give --robot a1"),
    ("pixelgait-export --low-level flipped --out b", "not a checkpoint"),
    ("pixelgait-export --low-level short --out b", "398 weights"),
    ("pixelgait-export --low-level nan --out b", "not finite"),
    ("pixelgait-export --low-level empty --out b", "there is no such checkpoint"),
    ("pixelgait-export --low-level walk --high-level sized --out b", "12 weights"),
    ("pixelgait-export --low-level walk --high-level short --out b", "trains no high level"),
    ("pixelgait-train imitate --encoder= --out new", "--encoder= is empty"),
    ("pixelgait-train --recipe stew", "recipe 'stew': no such file, and none shipped (cnn, iap"),
    ("pixelgait-train --recipe iap --out /dev/null", "/dev/null"),
    ("pixelgait-train --recipe empty.txt", "expected lines of pixelgait-train"),
    ("pixelgait-train --recipe ahead.txt", "ahead.txt:1"),
    ("pixelgait-train --recipe braces.txt", "braces.txt:2"),
    ("pixelgait-train --recipe nothing.txt", "nothing.txt:2: the first run is {1}"),
    *[
        (line, "many holds runs, name one of them: many/01-walk, many/02-walk, ")
        for line in (
            "pixelgait-eval many",
            "pixelgait-export --low-level many --out b",
            "pixelgait-train walk --out new --start many",
            "pixelgait-train --out many --resume",
        )
    ],
    ("pixelgait-eval many", "many/09-walk, ..."),
    ("pixelgait-train --out gone --resume", "nothing to resume"),
    ("pixelgait-train --out flipped --resume", "not a checkpoint"),
    ("pixelgait-train --out cut --resume", "not readable as YAML"),
    ("pixelgait-train --out taskless --resume", "names no task"),
    ("pixelgait-train --out short --resume", "398 weights, task walk trains 399"),
    ("pixelgait-train --out nan --resume", "not finite"),
    ("pixelgait-train --out sized --resume", "12 weights"),
    ("pixelgait-train --out unknown --resume", "unknown encoder 'ear'"),
    ("pixelgait-train --out odd --resume", "odd/config.yaml: unknown key es.charm"),
    ("pixelgait-train follow --out short --resume", "a run of task walk, not follow"),
    ("pixelgait-train walk --out new --start short", "398 weights, expected 399"),
    ("pixelgait-train walk --out new --start gone", "gone: not a run folder"),
    ("pixelgait-train walk --out new --delays-from latency.json", "--delays-from"),
    ("pixelgait-train course --out new --low-level gone", "gone: not a run folder"),
    ("pixelgait-train course --out new --low-level sized", "trains no low level"),
    ("pixelgait-train imitate --out new --encoder iap:channels=2", "2 channels"),
    ("pixelgait-train imitate --out new --encoder iap:pet=cat", "no option 'pet=cat'"),
    ("pixelgait-train imitate --out new --encoder vit:dim=1000000000000", "cannot be built:"),
]
USAGE = [
    (f"{command} --nonsense", "--nonsense")
    for command in (
        "pixelgait-eval iap",
        "pixelgait-run iap",
        "pixelgait-sim",
        "pixelgait-profile iap",
        "pixelgait-encoders",
        "pixelgait-export --low-level walk --out b",
        "pixelgait-replay diary.mcap",
        "pixelgait-view diary.mcap",
        "pixelgait-benchmark",
        "pixelgait-demo",
        "pixelgait-train walk --out new",
        "pixelgait-train --out short --resume",
        "pixelgait-train --recipe iap",
    )
]
# Files of settings for --config, and the message about each.
FILES = {
    "unknown": ("es: {charm: 1}", "unknown key es.charm, expected one of method, directions, top"),
    "spelled": ("seed: seven", "seed is 'seven', expected a whole number"),
    "spread": ("es: {noise: [0.1]}", "es.noise is [0.1], expected a number"),
    "swum": ("body: water", "body is 'water', expected one of pybullet, mujoco, mixture"),
    "unreal": ("es: {noise: 1e999}", "--es.noise is inf, needs a finite number"),
    "half": ("randomisation: {mass: [0.8]}", "randomisation.mass is [0.8], expected 2 values"),
    "flat": ("es: 3", "es: expected keys and values, not 3"),
    "other": ("task: follow", "task: expected walk, not 'follow'"),
    "torn": ("es: {", "not readable as YAML"),
    "list": ("[1, 2]", "expected keys and values (YAML)"),
}
SETTINGS = [
    (f"pixelgait-train walk --out new --config {name}.yaml", f"{name}.yaml: {said}")
    for name, (_, said) in FILES.items()
]
SETTINGS += [
    ("pixelgait-train walk --out new --config gone.yaml", "gone.yaml is missing"),
    ("pixelgait-train --config unknown.yaml --out new", "task: expected one of walk, follow"),
    ("pixelgait-train --out short --resume --config torn.yaml", "--resume and --config are"),
]


def suffer(config: TrainConfig, weights: np.ndarray) -> None:
    """A run of these weights."""
    identity = {**config.identity(), **config.plan().identity()}
    run = Run.create(config.out, {**config.origin(), **identity})
    for name in ("best", "last"):
        run.save(Checkpoint.first(weights, Normaliser.empty()), name)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files that are none, and training runs that have suffered."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "note.txt").write_text("buy milk")
    (folder / "empty.txt").write_text("# nothing yet")
    (folder / "ahead.txt").write_text("walk --start {1}")
    (folder / "braces.txt").write_text("walk\nfollow --start {1.npz}")
    (folder / "nothing.txt").write_text("walk\nfollow --start {0}")
    (folder / "link.json").symlink_to("/dev/null")
    (folder / "linked").symlink_to(SHIPPED / "walk" / "low_level")
    (folder / "full").mkdir()
    (folder / "full" / "thesis.tex").write_text("years of work")
    (folder / "diary.mcap").write_text("dear diary")
    for name in TAKEN:
        (folder / "taken" / name).mkdir(parents=True)
    for name, code in SCENES.items():
        (folder / name).write_text(SCENE + code)
    weights = trotting_weights()
    for name, (text, _) in FILES.items():
        (folder / f"{name}.yaml").write_text(text)
    runs = {"flipped", "random", "cut", "list", "taskless", "odd", "empty"}
    walks = {**dict.fromkeys(runs, weights), "short": weights[1:], "nan": weights * np.nan}
    for name, values in walks.items():
        suffer(WalkConfig(out=folder / name), values)
    for number in range(1, 13):
        suffer(WalkConfig(out=folder / "many" / f"{number:02d}-walk"), weights)
    suffer(ImitateConfig(out=folder / "sized"), np.zeros(12))
    suffer(ImitateConfig(out=folder / "unknown", encoder="ear"), np.zeros(12))
    for name in ("best.npz", "last.npz"):
        data = bytearray((folder / "flipped" / name).read_bytes())
        data[len(data) // 2] ^= 255
        (folder / "flipped" / name).write_bytes(data)
        (folder / "random" / name).write_bytes(bytes(range(1, 200)))
    (folder / "empty" / "best.npz").unlink()
    config = folder / "cut" / "config.yaml"
    config.write_text(config.read_text()[:20])
    (folder / "list" / "config.yaml").write_text("[]")
    (folder / "taskless" / "config.yaml").write_text("{}")
    (folder / "odd" / "config.yaml").write_text("task: walk\nes: {charm: 1}")
    return folder


# What make runs: modules with command lines of their own.
MODULES = [
    ("docs.figures.studies.features --picture taken/encoders.png", "is not a file"),
    ("tests.faults.table --only weather", "weather"),
    ('tests.faults.table --page ""', "--page is empty"),
    ("tests.faults.table --page f.md --json f.md", "--page is the same file"),
    ("docs.figures.results.walk_card gone", "bundle 'gone'"),
    ("docs.figures.results.gait_study --out taken/latency.svg", "expected a file .png"),
    ("docs.figures.results.gait_study --out taken/encoders.png", "is not a file"),
    ("pixelgait.policies.training.calibration gone", "gone: not a run folder"),
    ("pixelgait.policies.training.calibration walk", "walk is shipped, and calibrated"),
    ("pixelgait.policies.training.calibration linked", "linked is shipped, and calibrated"),
]

LONGEST_S = 60


def accepted(*_: object) -> None:
    raise AssertionError("the line was accepted, and is at work")


Typed = Callable[..., tuple[int, str]]


@pytest.fixture
def typed(desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Type a line on the desk; exit code and what stands on standard error."""

    def run(line: str, main: Callable[[], object] = main) -> tuple[int, str]:
        monkeypatch.chdir(desk)
        monkeypatch.delenv("DISPLAY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        signal.signal(signal.SIGALRM, accepted)
        signal.alarm(LONGEST_S)
        try:
            with pytest.raises(SystemExit) as left:
                main()
        finally:
            signal.alarm(0)
        said = left.value.code
        spoken = capsys.readouterr().err
        return (1, f"{spoken}{said}\n") if isinstance(said, str) else (int(said or 0), spoken)

    return run


@pytest.mark.parametrize(("line", "words"), [*NUMBERS, *IGNORED, *OTHERS, *USAGE, *SETTINGS])
def test_bad_input_is_refused_in_one_line(typed: Typed, line: str, words: str) -> None:
    one_line(typed(line), words)


@pytest.mark.parametrize(("line", "words"), MODULES)
def test_modules_with_a_command_line_are_no_worse(typed: Typed, line: str, words: str) -> None:
    module = importlib.import_module(line.split()[0])
    one_line(typed(line, module.main), words)


def one_line(answer: tuple[int, str], words: str) -> None:
    code, said = answer
    assert code == 1
    assert len(said.splitlines()) == 1, said
    assert said.startswith("error: ")
    assert words in said


def test_refused_lines_leave_no_files(desk: Path) -> None:
    """Runs last in this file: no line above has made a run, a bundle or a figure."""
    assert not [path for path in ("new", "b", "film") if list(desk.glob(f"{path}/*"))]
    assert (desk / "full" / "thesis.tex").read_text() == "years of work"
    assert (desk / "link.json").is_symlink()
    assert (desk / "diary.mcap").read_text() == "dear diary"
    assert sorted(path.name for path in (desk / "taken").iterdir()) == sorted(TAKEN)


@pytest.mark.parametrize("out", ["/dev/null", "note.txt"])
def test_a_recipe_without_a_writable_folder_does_not_begin(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.setattr(sys, "argv", ["pixelgait-train", "--recipe", "iap", "--out", out])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out == ""


def test_ctrl_c_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt("2 of 3 are done")

    with pytest.raises(SystemExit) as left:
        run_command(stopped)
    assert left.value.code == 130
    assert capsys.readouterr().err == "error: interrupted, 2 of 3 are done\n"
