"""The check of the camera's mount by /tf_static: geometry, and between processes."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.ros.common import static_transforms
from pixelgait.robot.ros.common.static_transforms import StaticTransforms
from pixelgait.robot.ros.monitoring.camera_checks import CameraMountCheck, unaligned
from pixelgait.robot.spec import A1, TrainedMounts, trained_mounts
from tests.ros.support import AUTO, PUBLISH_MOUNTS, Client, FakeRobot, Processes

PITCH_RAD = A1.camera.pitch_down_rad
X_M, Y_M, Z_M = A1.camera.position_m
ONE = TrainedMounts.one(A1.camera)
Transform = tuple[str, str, tuple[float, float, float], tuple[float, float, float, float]]


def about(axis: str, angle_rad: float) -> tuple[float, float, float, float]:
    """A quaternion xyzw."""
    part = {name: math.sin(angle_rad / 2.0) * (name == axis) for name in "xyz"}
    return (part["x"], part["y"], part["z"], math.cos(angle_rad / 2.0))


OPTICAL = (-0.5, 0.5, -0.5, 0.5)  # REP 103's, as URDFs write it: rpy -pi/2 0 -pi/2
HERE = (0.0, 0.0, 0.0)
# As from robot_state_publisher, for a camera on a bracket with RealSense's own frames.
RIGHT: list[Transform] = [
    ("camera_link", "camera_color_frame", (0.0, 0.015, 0.0), (0.0, 0.0, 0.0, 1.0)),
    ("/base_link", "bracket", (X_M - 0.1, Y_M, Z_M), (0.0, 0.0, 0.0, 1.0)),
    ("bracket", "camera_link", (0.1, 0.0, 0.0), about("y", PITCH_RAD)),
    ("camera_color_frame", "camera_color_optical_frame", HERE, OPTICAL),
]


def message(transforms: list[Transform]) -> Any:
    def named(values: tuple[float, ...]) -> Any:
        return SimpleNamespace(**dict(zip("xyzw", values, strict=False)))

    return SimpleNamespace(
        transforms=[
            SimpleNamespace(
                header=SimpleNamespace(frame_id=parent),
                child_frame_id=child,
                transform=SimpleNamespace(translation=named(where), rotation=named(turned)),
            )
            for parent, child, where, turned in transforms
        ]
    )


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Problem and unknown part of a check that has received some transforms."""

    def hear(
        transforms: list[Transform], *frames: str, mounts: TrainedMounts = ONE
    ) -> tuple[str | None, str | None]:
        frames = frames or ("camera_color_optical_frame",)
        waiting = [(message([each]), None) for each in transforms]
        handle: Any = contextlib.nullcontext()
        handle.take_message = lambda *_: waiting.pop(0) if waiting else None
        node = SimpleNamespace(
            create_subscription=lambda *_: SimpleNamespace(handle=handle, msg_type=None)
        )
        monkeypatch.setattr(static_transforms, "TFMessage", object)
        watch = CameraMountCheck(StaticTransforms(node, "base_link"), mounts)
        named = tuple(frame for frame in frames if frame)  # images need not say
        return watch.problem(named), watch.unknown(named)

    return hear


def moved(child: str, **changed: Any) -> list[Transform]:
    """`RIGHT`, but for one transform."""
    return [
        (p, c, changed.get("where", w), changed.get("turned", t)) if c == child else (p, c, w, t)
        for p, c, w, t in RIGHT
    ]


def test_colour_and_depth_of_several_frames_may_not_be_aligned() -> None:
    depth, colour = "camera_depth_optical_frame", "camera_color_optical_frame"
    told = f"colour and depth are in several frames, {colour}, {depth}: is depth aligned to colour?"
    assert unaligned((colour, depth)) == told
    assert unaligned((colour,)) is None  # as in realsense2_camera's aligned_depth_to_color
    assert unaligned(()) is None


def test_a_camera_is_found_along_the_chain_of_its_frames(heard: Any) -> None:
    assert heard(RIGHT) == (None, None)
    assert heard(RIGHT, "camera_link") == (None, None)  # no optical frame: x ahead
    assert heard(RIGHT[:2] + RIGHT[3:])[1] == (
        "the camera's mount is not checked: /tf_static does not lead "
        "from 'base_link' to 'camera_color_optical_frame'"
    )
    assert heard(RIGHT, "")[1] == (
        "the camera's mount is not checked: /tf_static does not lead from 'base_link' to ''"
    )
    circle = [*RIGHT[2:], ("camera_link", "bracket", HERE, OPTICAL), RIGHT[0]]
    assert heard(circle)[0] is None


@pytest.mark.parametrize(
    ("transforms", "says"),
    [
        (moved("camera_link", turned=about("y", PITCH_RAD + 0.35)), "looks 0.55 rad down, the"),
        (moved("camera_link", turned=about("y", -PITCH_RAD)), "looks -0.20 rad down, the"),
        (moved("camera_link", where=(0.1, 0.0, 0.1)), "sits at (0.20, 0.01, 0.15) m, the policy"),
        (moved("bracket", turned=about("x", 0.3)), "is turned by 0.31 rad about its axis"),
        (moved("camera_color_frame", turned=about("z", 0.2)), "is turned by 0.20 rad to the left"),
        (moved("camera_color_optical_frame", turned=(0.0, 0.0, 0.0, 1.0)), "looks "),
    ],
)
def test_a_misplaced_camera_is_described(
    heard: Any, transforms: list[Transform], says: str
) -> None:
    problem, unknown = heard(transforms)
    assert problem.startswith(f"/tf_static: 'camera_color_optical_frame' {says}"), problem
    assert unknown is None


@pytest.mark.parametrize(
    ("height_m", "down_rad", "says"),
    [
        (0.68, 0.04, None),
        (0.32, 0.36, None),
        (0.8, 0.2, "sits at (0.20, 0.01, 0.53) m, the policy was made for (0.20, 0.00, -0.02 to"),
        (0.5, 0.5, "looks 0.50 rad down, the policy was made for 0.03 to 0.37 rad"),
    ],
)
def test_any_mount_of_the_training_is_accepted_and_no_other(
    heard: Any, height_m: float, down_rad: float, says: str | None
) -> None:
    camera = {"trained_eye_height_m": [0.25, 0.7], "trained_eye_pitch_rad": [0.03, 0.37]}
    mounts = trained_mounts(camera, A1.camera, A1.stand_height_m)
    where = 0.1, 0.0, height_m - A1.stand_height_m - Z_M
    transforms = moved("camera_link", where=where, turned=about("y", down_rad))
    problem, _ = heard(transforms, mounts=mounts)
    assert problem is None if says is None else says in problem
    assert heard(transforms)[0] is not None or abs(where[2]) < 0.05  # a policy of one mount


@pytest.mark.parametrize(("down_rad", "away_m"), [(0.08, 0.0), (-0.08, 0.0), (0.0, 0.04)])
def test_usual_mounting_errors_are_accepted(heard: Any, down_rad: float, away_m: float) -> None:
    bent = moved("camera_link", where=(0.1 + away_m, 0, 0), turned=about("y", PITCH_RAD + down_rad))
    assert heard(bent) == (None, None)


def test_invalid_transforms_are_ignored(heard: Any) -> None:
    for broken in ({"turned": (0.0, 0.0, 0.0, 0.0)}, {"where": (math.nan, 0.0, 0.0)}):
        assert "does not lead" in heard(moved("camera_link", **broken))[1]


@pytest.fixture
def mounted_wrongly(tf2_processes: Processes) -> None:
    """/tf_static has the camera 20 degrees further down than the contract."""
    bent = about("y", PITCH_RAD + math.radians(20.0))
    transforms = [
        ("base_link", "bracket", (X_M, Y_M, Z_M), bent),
        ("bracket", "camera", HERE, (0.0, 0.0, 0.0, 1.0)),
    ]
    publisher = tf2_processes.script(PUBLISH_MOUNTS, repr(transforms))
    assert publisher.stdout is not None
    assert publisher.stdout.readline() == "told\n"


@pytest.mark.slow
@pytest.mark.usefixtures("mounted_wrongly")
def test_a_camera_with_another_direction_is_refused(
    tf2_processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    run = tf2_processes.start("pixelgait-run", iap_bundle, *AUTO)
    assert run.stdout is not None
    for line in run.stdout:
        if "waiting for" in line:
            break  # only now, as the client spins, the robot sends: it could stand up at once
    client.spin(lambda: run.poll() is not None)
    refused = "error: /tf_static: 'camera' looks 0.55 rad down, the policy was made for 0.20 rad"
    assert refused in run.stdout.read()
    assert not any(np.any(command.position) for command in client.commands)


def test_the_simulated_robot_publishes_its_cameras_mount(
    tf2_processes: Processes, iap_bundle: Path
) -> None:
    tf2_processes.start("pixelgait-sim")
    run = tf2_processes.start("pixelgait-run", iap_bundle, "--duration", 0.5, *AUTO)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output
    assert "not checked" not in output
    assert "/tf_static" not in output


def test_a_published_mount_is_reported_as_not_checked_without_tf2_msgs(
    processes: Processes, with_tf2: dict[str, str], iap_bundle: Path
) -> None:
    if static_transforms.TFMessage is not None:
        pytest.skip("tf2_msgs is installed")
    plain = dict(processes.environment)
    processes.environment |= {
        name: f"{plain[name]}:{value}" if name in plain else value
        for name, value in with_tf2.items()
    }
    processes.start("pixelgait-sim")
    processes.environment = plain
    run = processes.start("pixelgait-run", iap_bundle, "--duration", 0.5, *AUTO)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output
    assert output.count("tf2_msgs is not installed: the camera's mount is not checked") == 1
