"""pixelgait-replay: replays a recording of the node, or plays a camera's recording to a policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.cli.options import check_outputs, parse, require_libraries
from pixelgait.robot.cli.provenance import head
from pixelgait.robot.errors import UserError, run_command
from pixelgait.robot.files import json_bytes, write_atomic
from pixelgait.robot.recording import camera_recordings as recordings
from pixelgait.robot.recording.reader import is_other_bag
from pixelgait.robot.recording.recorder import require_library
from pixelgait.robot.recording.replay import ReplayConfig, report
from pixelgait.robot.viewing.camera_replay import (
    NEEDED,
    CameraReplay,
    Moment,
    film_frames,
    format_figures,
)
from pixelgait.robot.viewing.film import write_film

FILMS = (".mp4", ".gif", ".png")


def main() -> None:
    """Console entry point."""
    run_command(lambda: run(parse(ReplayConfig, "pixelgait-replay")))


def run(config: ReplayConfig) -> None:
    """Replay a recording of the node, or play another one to the policy of a bundle.

    Raises:
        UserError: as `report` or `play_to_policy`.
    """
    require_library()
    if _is_own(config.recording):
        _refuse_options(config)
        report(config)
    else:
        play_to_policy(config)


def _is_own(path: Path) -> bool:
    """Whether a path is read as a recording of pixelgait-run, as all that is no other bag."""
    if path.is_dir() or path.suffix in (".db3", ".bag"):
        return False
    return not (path.suffix == ".mcap" and is_other_bag(path))


def _refuse_options(config: ReplayConfig) -> None:
    given = [name for name in ("video", "goal", *_NAMED) if getattr(config, name) is not None]
    if given:
        raise UserError(f"--{given[0]} is for recordings of a camera, not of pixelgait-run")


_NAMED = ("colour", "depth", "imu", "odometry")


def play_to_policy(config: ReplayConfig) -> None:
    """Play a camera's recording to a policy; print and write what it decides.

    Raises:
        UserError: if there is no bundle, or the recording cannot be read or lacks its images.
    """
    if config.bundle is None:
        raise UserError(f"{config.recording} has no bundle: name the policy with --bundle")
    if config.video is not None:
        _require_film(config.video)
    outputs = ("json", config.json), ("video", config.video)
    check_outputs(*outputs, inputs=[config.recording])
    bundle = load_bundle(config.bundle)
    needed = NEEDED[bundle.image_shape[2]]
    named = {name: topic for name in _NAMED if (topic := getattr(config, name)) is not None}
    opened = recordings.open_camera_recording(config.recording, needed, named, config.rate)
    with opened as recording:
        replay = CameraReplay(recording, bundle, config.goal)
        moments: Iterator[Moment] = replay.moments()
        if config.video is not None:
            write_film(config.video, film_frames(moments, bundle.image_shape))
        for _ in moments:  # those of a film are over
            pass
    figures = replay.figures(config.recording)
    print(format_figures(figures))
    if config.json is not None:
        write_atomic(config.json, json_bytes({**head("pixelgait-replay"), **figures}))
        print(f"wrote {config.json}")
    if config.video is not None:
        print(f"wrote {config.video}")


def _require_film(path: Path) -> None:
    if path.suffix not in FILMS:
        raise UserError(f"--video {path}: expected a file {', '.join(FILMS)}")
    try:
        require_libraries("imageio", "imageio_ffmpeg")
    except ModuleNotFoundError as error:
        needs = f"--video needs {error.name}: pip install 'pixelgait[bags]'"
        raise UserError(needs) from None


if __name__ == "__main__":
    main()
