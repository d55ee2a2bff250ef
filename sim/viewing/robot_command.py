"""pixelgait-robot: a robot from its URDF, with a first walk in simulation, as a robot file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import tyro

from pixelgait.robot.cli.options import Range, check_outputs, parse
from pixelgait.robot.control import gait
from pixelgait.robot.control.low_level import LATENT_SIZE, OUTPUT_SIZE, act, carried_size
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import write_atomic
from pixelgait.robot.interface import CONTROL_DT_S, JointCommand
from pixelgait.robot.rotation import to_base_frame
from pixelgait.robot.spec import A1, LEGS, ROBOT_FILES, Array, RobotSpec, mounted, robot_numbers
from pixelgait.sim.engines.registry import BODIES, make_body
from pixelgait.sim.options import MountOptions
from pixelgait.sim.scenes.flat import FlatGround

if TYPE_CHECKING:  # --help needs no simulator
    from pixelgait.sim.engines.derive_robot import Choices

# The trot: a stride of a quarter of the leg, 2 Hz on an A1 and slower on longer legs, as a
# pendulum of that length.
STRIDE_PER_LEG, A1_FREQUENCY_HZ = 0.25, 2.0
FALLEN_UP = 0.5  # least component of the base's z axis along the world's: 60 degrees
FALLEN_SHARE = 0.5  # least height of the base, of its standing height
HEADER = """\
# A robot for --robot, made by pixelgait-robot: {urdf}
# Angles [rad] are in the order of joint_names: legs FR, FL, RR, RL, each abduction, hip, knee.
"""


@dataclass(frozen=True)
class RobotConfig(MountOptions):
    """Derive a robot from its URDF, let it trot in simulation, and write its robot file.

    Joints, signs, lengths, feet, limits, mass and the standing pose come from the URDF. What it
    does not say is assumed and printed. The trot is open loop, without learning: a robot that falls
    has other gains or another height. The file is for --robot of all commands.
    """

    urdf: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="URDF")]
    """URDF of a robot with four legs of three joints."""
    out: Path | None = None
    """Robot file; by default NAME.yaml here."""
    picture: Path | None = None
    """Film of the trot (.mp4 or .gif; .png for a strip of frames); by default NAME.png here."""
    name: str | None = None
    """Name of the robot; by default the URDF's file name."""
    height: Annotated[float | None, Range(0.02, 2.0)] = None
    """Height of the hips above the feet [m]; by default 0.62 of a straight leg."""
    kp: Annotated[float | None, Range(0.1, 1e5)] = None
    """Stiffness of the joints [Nm/rad]; by default from weight and leg."""
    kd: Annotated[float | None, Range(0.0, 1e4)] = None
    """Damping of the joints [Nm s/rad]; by default 0.025 s of --kp."""
    seconds: Annotated[float, Range(0.5, 60.0)] = 5.0
    """Length of the trot [s]."""


class Trot(NamedTuple):
    """A trot: rows of `Track.path`, and when the robot fell [s], or None."""

    path: Array
    fell_s: float | None

    def __str__(self) -> str:
        x, y, z = self.path[-1, 1:4].tolist()
        if self.fell_s is not None:
            return f"falls after {self.fell_s:.1f} s"
        way = f"{x:.2f} m ahead and {y:+.2f} m aside in {self.path[-1, 0]:.1f} s"
        return f"trots {way}, base at {z:.2f} m"


def main() -> None:
    """Console entry point."""
    run_command(lambda: run(parse(RobotConfig, "pixelgait-robot")))


def run(config: RobotConfig) -> None:
    """Derive, trot, and write picture and robot file.

    Raises:
        UserError: see `derive_robot`; or if an output cannot be written, or the robot falls.
    """
    from pixelgait.sim.engines.derive_robot import derive_robot

    derived = derive_robot(config.urdf, choices(config))
    spec = mounted(derived.spec, config.mount(derived.spec.camera))
    out = config.out or Path(f"{spec.name}.yaml")
    picture = config.picture or Path(f"{spec.name}.png")
    if out.suffix not in ROBOT_FILES:
        raise UserError(f"--out {out}: expected a file {', '.join(ROBOT_FILES)}")
    check_outputs(("out", out), ("picture", picture), inputs=[config.urdf])
    print(described(spec, derived.notes))
    trots: dict[str, Trot] = {}
    for name in BODIES:
        try:
            trots[name] = trot(spec, config.seconds, name)
            print(f"{name}: {trots[name]}")
        except UserError as error:
            print(f"{name}: {error}")
    write_atomic(out, robot_file(spec, config.urdf))
    print(f"wrote {out}")
    first = next(iter(trots.values()), None)
    if first is None:
        raise UserError(f"{config.urdf}: no simulator can load it")
    film(picture, spec, first)
    print(f"wrote {picture}")
    if fallen := [name for name, each in trots.items() if each.fell_s is not None]:
        raise UserError(f"{spec.name} falls in {' and '.join(fallen)}: try --height, --kp, --kd")
    learn = "--start walk --mirror --randomise --out runs/walk"
    print(f"next: pixelgait-train follow --robot {out} {learn}")


def choices(config: RobotConfig) -> Choices:
    """The robot's values from the command line.

    Raises:
        UserError: if the URDF does not exist, or a name cannot be used.
    """
    if not config.urdf.is_file():
        raise UserError(f"{config.urdf} is {'a folder' if config.urdf.is_dir() else 'missing'}")
    from pixelgait.sim.engines.derive_robot import Choices

    return Choices(
        name=config.name,
        height_m=config.height,
        kp_nm_per_rad=config.kp,
        kd_nms_per_rad=config.kd,
    )


def trot(spec: RobotSpec, seconds: float, body_name: str) -> Trot:
    """An open-loop trot on flat ground; it ends when the robot falls.

    Raises:
        UserError: if the simulator is not installed, or cannot load the URDF.
    """
    body = make_body(body_name, spec, FlatGround())
    try:
        reading = body.reset(0)
        latent, carried = np.zeros(LATENT_SIZE), np.zeros(carried_size(spec))
        action, rows = trotting(spec), []
        for _ in range(round(seconds / CONTROL_DT_S)):
            targets, carried = act(spec, latent, action, carried, reading.joint_angles)
            targets = np.clip(targets, spec.joint_lower_rad, spec.joint_upper_rad)
            gains = spec.kp_nm_per_rad, spec.kd_nms_per_rad
            body.apply(JointCommand(body.time_s, targets, *gains, np.zeros(12)))
            reading, pose = body.read(), body.pose()
            rows.append([body.time_s, *pose.position, *pose.orientation, *reading.joint_angles])
            up = to_base_frame((0.0, 0.0, 1.0), pose.orientation)[2]
            if up < FALLEN_UP or pose.position[2] < FALLEN_SHARE * spec.stand_height_m:
                return Trot(np.array(rows), body.time_s)
        return Trot(np.array(rows), None)
    finally:
        body.close()


def trotting(spec: RobotSpec) -> Array:
    """The action (19,) of the trot: a low level without weights, its gait by the leg's length."""
    wanted = gait.PARAMETER_LOW / 2.0 + gait.PARAMETER_HIGH / 2.0
    pendulum = math.sqrt(A1.leg_length_m / spec.leg_length_m)
    wanted[gait.FREQUENCY] = A1_FREQUENCY_HZ * pendulum
    wanted[gait.STRIDE] = STRIDE_PER_LEG * spec.leg_length_m
    span = gait.PARAMETER_HIGH - gait.PARAMETER_LOW
    action = np.zeros(OUTPUT_SIZE)
    action[-len(wanted) :] = np.clip(2.0 * (wanted - gait.PARAMETER_LOW) / span - 1.0, -1.0, 1.0)
    return action


def film(path: Path, spec: RobotSpec, walk: Trot) -> None:
    """Film a trot."""
    from pixelgait.sim.viewing.video import Track, film_track  # takes a second

    film_track(path, spec, FlatGround(), 0, Track(walk.path, walk.path[:, 0]))


def robot_file(spec: RobotSpec, urdf: Path) -> bytes:
    """A robot file (YAML), its numbers to a millionth."""
    import yaml

    numbers = _rounded(robot_numbers(spec))
    text: str = yaml.safe_dump(numbers, sort_keys=False, default_flow_style=None, width=100)
    return (HEADER.format(urdf=urdf.name) + text).encode()


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, 6) + 0.0 if isinstance(value, float) else value


def described(spec: RobotSpec, notes: list[str]) -> str:
    """The specification in lines for people: joints leg by leg, lengths, notes."""
    x, y, z = spec.camera.position_m
    lines = [f"{spec.name}: {spec.urdf}"]
    pose = spec.default_pose_rad.reshape(4, 3).tolist()
    for leg, (foot, angles) in enumerate(zip(spec.foot_links, pose, strict=True)):
        names = ", ".join(spec.joint_names[3 * leg : 3 * leg + 3])
        at = ", ".join(f"{angle:.3f}" for angle in angles)
        lines.append(f"  {LEGS[leg]}: {names} stand at {at} rad, foot {foot}")
    lines.append(
        f"  hips {spec.leg_length_m:.3f} m above the feet, base at {spec.stand_height_m:.3f} m, "
        f"kp {spec.kp_nm_per_rad[0]:g}, kd {spec.kd_nms_per_rad[0]:g}"
    )
    pitch = spec.camera.pitch_down_rad
    lines.append(f"  camera at {x:g}, {y:g}, {z:g} m, {pitch:g} rad down: --camera, --pitch")
    return "\n".join([*lines, *(f"  note: {note}" for note in notes)])
