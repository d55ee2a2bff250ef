"""Orders over a socket, and options of a run without ROS 2."""

from __future__ import annotations

import socket

import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.direct.orders import HOST, OrderServer, send
from pixelgait.robot.direct.run import DirectOptions, _camera, _timeouts
from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.run import RunConfig, run
from pixelgait.robot.runtime.state_machine import Operator, RobotState
from pixelgait.robot.safety.supervisor import SensorTimeouts
from pixelgait.robot.unitree.address import Go2


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def test_an_order_is_a_line_and_so_is_its_answer() -> None:
    operator, port = Operator(), free_port()
    operator.begin()
    operator.state = RobotState.LIMP
    server = OrderServer(operator, port)
    try:
        with socket.create_connection((HOST, port), 5.0) as connection:
            answers = connection.makefile()
            for order, answer in (
                ("arm", "ok: armed"),
                ("walk", "refused: the robot is limp"),
                ("fly", "refused: no such order, choose from arm, disarm, stand_up, "),
                ("emergency_stop", "ok: stopped by pixelgait-order"),
            ):
                connection.sendall(f"{order}\n".encode())
                assert answers.readline().startswith(answer)
        assert operator.commands.stop == "pixelgait-order"
        with pytest.raises(UserError, match="stopped by pixelgait-order: reset the emergency"):
            send("arm", port)
        with pytest.raises(UserError, match=f"--orders {port}: Address already in use"):
            OrderServer(operator, port)
    finally:
        server.close()
    with pytest.raises(UserError, match=f"no pixelgait-run without ROS 2 answers on port {port}"):
        send("arm", port)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"link": "ros"}, "without ROS 2 only a Go2 is reached, --link go2:INTERFACE or go2-sport"),
        ({"goal": (1.0, 0.0)}, "--goal needs ROS 2"),
        ({"map": True}, "--map needs ROS 2"),
        ({"pilot": "cmd_vel"}, "--pilot needs ROS 2"),
        ({"autostart": False}, "--no-autostart needs ROS 2"),
    ],
)
def test_options_that_need_ros_are_refused(options: dict[str, object], says: str) -> None:
    given = {"link": "go2:lo", **options}
    with pytest.raises(UserError, match=f"--camera realsense: {says}"):
        run(RunConfig("rover-go2", camera="realsense", **given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "camera", "says"),
    [
        ("rover-go2", "none", "--camera none: this policy needs one"),
        ("rover-go2", "webcam", "--camera webcam: expected ros, none, realsense or simulated"),
        ("walk-go2", "realsense", "--camera realsense: its sticks steer it: --camera none"),
        ("navigator-go2", "simulated", "a policy with a goal needs odometry"),
    ],
)
def test_a_camera_goes_with_the_bundle(name: str, camera: str, says: str) -> None:
    bundle = load_bundle(name)
    piloted = name == "walk-go2"
    with pytest.raises(UserError, match=says):
        _camera(camera, bundle, piloted)


def test_time_outs_replace_those_of_the_contract() -> None:
    bundle = load_bundle("rover-go2")

    def timeouts(*given: str) -> dict[str, SensorTimeouts]:
        options = DirectOptions("rover-go2", Go2("lo", 1), "simulated", timeouts=given)
        return dict(_timeouts(options, bundle))

    assert timeouts("lowstate=0.2/0.3/0.4")["lowstate"] == SensorTimeouts(0.2, 0.3, 0.4)
    assert timeouts()["lowstate"] == timeouts("camera/color/image_raw=1/2/3")["lowstate"]
    for wrong in ("lowstate", "lowstate=1/2", "lowstate=3/2/1", "lowstate=a/b/c", "knee=1/2/3"):
        with pytest.raises(UserError, match=r"--timeouts (lowstate|knee)"):
            timeouts(wrong)
