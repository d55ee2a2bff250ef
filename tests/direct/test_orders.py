"""Orders over a socket, and options of a run without ROS 2."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest

from pixelgait.robot.bundle import load_bundle
from pixelgait.robot.direct.orders import HOST, OrderServer, send
from pixelgait.robot.direct.run import DirectOptions, DirectRun, _camera, _timeouts
from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.common.topic_names import COLOUR, DEPTH
from pixelgait.robot.ros.run import RunConfig, run
from pixelgait.robot.runtime.camera import PAIR
from pixelgait.robot.runtime.state_machine import Operator, RobotState
from pixelgait.robot.safety.supervisor import CAMERA, SensorTimeouts
from pixelgait.robot.unitree.address import Go2, Go2Sport


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def served() -> tuple[Operator, int, OrderServer]:
    """The operator of a limp robot, and the port and server of its orders."""
    operator, port = Operator(), free_port()
    operator.begin()
    operator.state = RobotState.LIMP
    return operator, port, OrderServer(operator, port)


def test_an_order_is_a_line_and_so_is_its_answer() -> None:
    operator, port, server = served()
    try:
        with socket.create_connection((HOST, port), 5.0) as connection:
            answers = connection.makefile()
            for order, answer in (
                ("arm", "ok: armed"),
                ("walk", "refused: the robot is limp"),
                ("emergency_stop", "ok: stopped by pixelgait-order"),
            ):
                connection.sendall(f"{order}\n".encode())
                assert answers.readline().startswith(answer)
        assert operator.commands.stop == "pixelgait-order"
        with pytest.raises(UserError, match="no such order, choose from arm, disarm, stand_up, "):
            send("fly", port)
        with pytest.raises(UserError, match="stopped by pixelgait-order: reset the emergency"):
            send("arm", port)
        with pytest.raises(UserError, match=f"--orders {port}: Address already in use"):
            OrderServer(operator, port)
    finally:
        server.close()
    with pytest.raises(UserError, match=f"no pixelgait-run without ROS 2 answers on port {port}"):
        send("arm", port)


def test_a_goal_is_an_order_of_a_policy_that_takes_one() -> None:
    operator, port, server = served()
    try:
        with pytest.raises(UserError, match="no such order, choose from arm, disarm, "):
            send("goal 1 0", port)
    finally:
        server.close()
    server = OrderServer(operator, port, to_goals=True)
    try:
        assert send("goal 1.5 -2", port) == "on the way as soon as it walks"
        assert operator.commands.goal_position == (1.5, -2.0)
        for wrong in ("goal", "goal 1", "goal 1 2 3", "goal nan 0", "goal 1e9 0", "goal a b"):
            with pytest.raises(UserError, match=r"expected goal X Y \[m\], not goal"):
                send(wrong, port)
        assert send("cancel_goal", port) == "stands"
        with pytest.raises(UserError, match=r"reset_emergency_stop, goal X Y"):
            send("fly", port)
    finally:
        server.close()


def test_a_web_page_cannot_order() -> None:
    """It can make a browser send lines, but only below those of HTTP."""
    operator, port, server = served()
    try:
        with socket.create_connection((HOST, port), 5.0) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\narm\n")
            with suppress(ConnectionResetError):
                while connection.recv(1000):
                    pass
        assert not operator.commands.armed
    finally:
        server.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"link": "ros"}, "without ROS 2 only a Go2 is reached, --link go2:INTERFACE or go2-sport"),
        ({"pilot": "cmd_vel"}, "--pilot needs ROS 2"),
        ({"autostart": False}, "--no-autostart needs ROS 2"),
    ],
)
def test_options_that_need_ros_are_refused(options: dict[str, object], says: str) -> None:
    given = {"link": "go2:lo", **options}
    with pytest.raises(UserError, match=f"--camera realsense: {says}"):
        run(RunConfig("rover-go2", camera="realsense", **given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"timeouts": ("lowstate=0.1/0.2/0.3",)}, "--timeouts is for a run without ROS 2"),
        ({"orders": 7420}, "--orders is for a run without ROS 2"),
    ],
)
def test_options_of_runs_without_ros_are_refused_with_it(
    options: dict[str, object], says: str
) -> None:
    with pytest.raises(UserError, match=says):
        run(RunConfig("rover-go2", link="go2:lo", **options))  # type: ignore[arg-type]


def test_a_run_that_would_move_nothing_is_refused() -> None:
    options = DirectOptions("walk-go2", Go2Sport("lo", 1), "none")
    with pytest.raises(UserError, match="over --link go2-sport, without ROS 2, nothing would"):
        DirectRun(options, load_bundle("walk-go2"), threading.Event())


def test_the_motors_are_given_back_before_the_camera_is_closed() -> None:
    """And whatever fails: a camera's driver may hang."""
    closed: list[str] = []

    def link() -> None:
        closed.append("link")
        raise UserError("the robot does not answer")

    direct = object.__new__(DirectRun)
    direct.fault = None
    direct._finish = lambda: closed.append("loop")  # type: ignore[method-assign]
    direct._link = SimpleNamespace(close=link)  # type: ignore[assignment]
    for name in ("orders", "frames"):
        closes = SimpleNamespace(close=lambda name=name: closed.append(name))
        setattr(direct, f"_{name}", closes)
    direct.close()
    assert closed == ["loop", "link", "orders", "frames"]
    assert direct.fault == "the robot does not answer"


@pytest.mark.parametrize(
    ("camera", "piloted", "says"),
    [
        ("none", False, "--camera none: this policy needs one"),
        ("webcam", False, "--camera webcam: expected ros, none, realsense or simulated"),
        ("realsense", True, "--camera realsense: its sticks steer it: --camera none"),
    ],
)
def test_a_camera_goes_with_the_policy(camera: str, piloted: bool, says: str) -> None:
    with pytest.raises(UserError, match=says):
        _camera(camera, piloted)


@pytest.mark.parametrize(
    ("name", "address", "says"),
    [
        ("rover-go2", Go2("lo", 1), "--goal: this policy takes no goal"),
        ("navigator-go2", Go2Sport("lo", 1), "without ROS 2, a robot walks to no goal"),
    ],
)
def test_a_goal_goes_with_policy_and_link(name: str, address: Go2, says: str) -> None:
    options = DirectOptions(name, address, "simulated", goal=(1.0, 0.0))
    with pytest.raises(UserError, match=says):
        DirectRun(options, load_bundle(name), threading.Event())


def test_time_outs_replace_those_of_the_contract() -> None:
    bundle = load_bundle("rover-go2")

    def timeouts(*given: str) -> dict[str, SensorTimeouts]:
        options = DirectOptions("rover-go2", Go2("lo", 1), "simulated", timeouts=given)
        return dict(_timeouts(options, bundle))

    assert timeouts("lowstate=0.2/0.3/0.4")["lowstate"] == SensorTimeouts(0.2, 0.3, 0.4)
    assert timeouts()["lowstate"] == timeouts("camera/color/image_raw=1/2/3")["lowstate"]
    pair = timeouts(f"{COLOUR}=2/3/4", f"{DEPTH}=1/2/3")  # as with ROS 2
    assert pair[PAIR] == SensorTimeouts(1, 2, 3)
    assert pair[CAMERA] == SensorTimeouts(2, 3, 4)
    for wrong in ("lowstate", "lowstate=1/2", "lowstate=3/2/1", "lowstate=a/b/c", "knee=1/2/3"):
        with pytest.raises(UserError, match=r"--timeouts (lowstate|knee)"):
            timeouts(wrong)
