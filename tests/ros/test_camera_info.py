"""The check of `camera_info` against the contract: geometry, and between processes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.spec import A1
from tests.ros.support import AUTO, Client, FakeRobot, Processes, output_of


def test_camera_info_is_judged_by_the_policys_field_of_view() -> None:
    from pixelgait.robot.control.lens import misfit
    from pixelgait.sim.ros.simulated_robot import camera_info

    square, broad = (32, 32, 3), (32, 64, 3)
    exact = camera_info(0, "", 480, 640, A1.camera)  # the policy sees its middle: 480 x 480
    assert (exact.k[2], exact.k[5]) == (319.5, 239.5)  # between the middle pixels' centres
    assert misfit(exact, square, A1.camera) is None
    assert misfit(camera_info(0, "", 640, 480, A1.camera), broad, A1.camera)  # cut above and below
    lens = 480 / 2 / np.tan(A1.camera.vertical_fov_rad / 2)
    for share, fits in ((1.05, True), (0.95, True), (1.3, False), (0.7, False)):
        exact.k = [share * lens, 0.0, 320.0, 0.0, share * lens, 240.0, 0.0, 0.0, 1.0]
        assert (misfit(exact, square, A1.camera) is None) == fits
    exact.k = [0.5 * lens, 0.0, 320.0, 0.0, lens, 240.0, 0.0, 0.0, 1.0]
    assert "rad wide, it was made for 1.05 rad" in str(misfit(exact, square, A1.camera))
    exact.k = [0.0] * 9  # not calibrated
    assert misfit(exact, square, A1.camera) is None


@pytest.mark.parametrize("camera", ["camera/color", "front"])
def test_a_camera_of_another_lens_is_refused(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot, camera: str
) -> None:
    """The camera_info beside the subscribed images counts."""
    from pixelgait.sim.ros.simulated_robot import CameraInfo, camera_info

    wide = replace(A1.camera, vertical_fov_rad=1.6)
    now = client.node.get_clock().now
    publisher = client.node.create_publisher(CameraInfo, f"{camera}/camera_info", 1)
    remapped: tuple[str, ...] = ()
    if camera == "front":
        images, ros2 = "front/image_raw", robot.ros2
        robot.camera = client.node.create_publisher(ros2.Image, images, ros2.SENSOR_QOS)
        remapped = ("-r", f"{ros2.COLOUR}:={images}")
    client.node.create_timer(
        0.03, lambda: publisher.publish(camera_info(now().nanoseconds, "", 48, 64, wide))
    )
    run = processes.start("pixelgait-run", iap_bundle, *AUTO, *remapped)
    client.spin(lambda: run.poll() is not None)
    assert f"error: /{camera}/camera_info: the policy would see 1.60 rad" in output_of(run)
    client.spin(lambda: not (client.commands and client.commands[-1].position))


SQUARE = (32, 32, 3)


def crop(info: Any, x: int, y: int, width: int, height: int) -> None:
    info.roi.x_offset, info.roi.y_offset, info.roi.width, info.roi.height = x, y, width, height


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        # As from image_proc's CropDecimateNode: the middle, half as high and wide.
        (lambda info: crop(info, 160, 120, 320, 240), "see 0.56 rad high, it was made for 1.05"),
        (lambda info: crop(info, 80, 0, 480, 480), None),
        (lambda info: crop(info, 0, 0, 480, 480), "look -0.19 rad to the right, it was made for"),
        (lambda info: crop(info, 160, 0, 480, 480), "look 0.19 rad to the right"),
        (lambda info: info.k.__setitem__(2, 600.0), "look -0.60 rad to the right"),
        (lambda info: info.k.__setitem__(5, 100.0), "look 0.32 rad down"),
        (lambda info: info.k.__setitem__(5, math.nan), "look nan rad down"),
        (lambda info: info.k.__setitem__(2, 350.0), None),  # within what a mount may be off by
        (lambda info: setattr(info, "binning_x", 2), "see 0.74 rad high"),  # 320 x 480 are left
    ],
)
def test_a_region_of_interest_is_judged_by_its_own_field_of_view(
    edit: Callable[[Any], object], says: str | None
) -> None:
    from pixelgait.robot.control.lens import misfit
    from pixelgait.sim.ros.simulated_robot import camera_info

    info = camera_info(0, "", 480, 640, A1.camera)
    edit(info)
    found = misfit(info, SQUARE, A1.camera)
    assert found is None if says is None else f"the policy would {says}" in str(found)


def test_binned_pixels_keep_the_field_of_view() -> None:
    """A quarter of the pixels for the whole field of view."""
    from pixelgait.robot.control.lens import misfit
    from pixelgait.sim.ros.simulated_robot import camera_info

    info = camera_info(0, "", 480, 640, A1.camera)
    info.binning_x = info.binning_y = 2
    assert misfit(info, SQUARE, A1.camera) is None
    crop(info, 160, 120, 320, 240)
    assert "would see 0.56 rad high" in str(misfit(info, SQUARE, A1.camera))


def test_a_latched_camera_info_is_received(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """Published once, before the node started."""
    from pixelgait.robot.ros.common import ros2
    from pixelgait.sim.ros.simulated_robot import CameraInfo, camera_info

    wide = replace(A1.camera, vertical_fov_rad=1.6)
    topic = "camera/color/camera_info"
    publisher = client.node.create_publisher(CameraInfo, topic, ros2.latched(1))
    publisher.publish(camera_info(0, "", 48, 64, wide))
    run = processes.start("pixelgait-run", iap_bundle, *AUTO)
    client.spin(lambda: run.poll() is not None)
    assert f"error: /{topic}: the policy would see 1.60 rad" in output_of(run)
    assert not any(np.any(command.position) for command in client.commands)


@pytest.mark.parametrize("speaks", [False, True])
def test_an_unpublished_lens_is_reported_as_not_checked(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot, speaks: bool
) -> None:
    from pixelgait.robot.ros.common.topic_names import COLOUR
    from pixelgait.sim.ros.simulated_robot import CameraInfo

    topic = f"{COLOUR.rpartition('/')[0]}/camera_info"
    if speaks:
        publisher, unknown = client.node.create_publisher(CameraInfo, topic, 1), CameraInfo()
        unknown.height, unknown.width = 48, 64
        client.node.create_timer(0.03, lambda: publisher.publish(unknown))
    run = processes.start("pixelgait-run", iap_bundle, *AUTO)
    client.wait_for_state("walking")
    client.spin_for(0.5)
    run.terminate()
    client.spin(lambda: run.poll() is not None)
    why = "is not calibrated" if speaks else "has no message"
    assert output_of(run).count(f"the camera's lens is not checked: /{topic} {why}") == 1
