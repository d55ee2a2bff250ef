"""Other nodes on the topics; diagnostics, parameters and cmd_vel of the node."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import numpy as np
import pytest

from pixelgait.robot.ros.common import ros2
from pixelgait.robot.ros.common.discovery import DISCOVERY_VARIABLES, LOCAL_VALUES, PROFILES
from pixelgait.robot.ros.connections import OtherNodes
from tests.ros.support import AUTO, PATIENT, WALKING, Client, FakeRobot, Processes, output_of, told

# Another node that publishes a topic of joints, from a process of its own.
OTHER = """
import sys
from pixelgait.robot.ros.common import ros2
ros2.rclpy.init()
node = ros2.rclpy.create_node("other_node")
publisher = node.create_publisher(ros2.JointState, sys.argv[1], 1)
def publish():
    message = ros2.JointState(name=["gripper"], position=[0.0], velocity=[0.0])
    message.header.stamp = node.get_clock().now().to_msg()
    if sys.argv[2] == "talk":
        publisher.publish(message)
node.create_timer(0.1, publish)
ros2.rclpy.spin(node)
"""


def test_nodes_are_complete_once_every_participant_of_the_domain_is_named(
    processes: Processes, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket of a participant that says nothing keeps the start waiting."""
    nodes = OtherNodes(client.node, (), None)
    processes.start("python", "-c", OTHER, "joint_states", "listen")
    client.spin(lambda: bool(nodes.others("joint_states")))
    client.spin(nodes.all_found)
    assert nodes.others("joint_states") == ["/other_node"]

    first_port = 7400 + 250 * processes.domain + 10
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with silent:
        silent.bind(("127.0.0.1", first_port + 2 * 100))
        assert not nodes.all_found()
    assert nodes.all_found()
    monkeypatch.setattr(ros2, "on_loopback", lambda: False)  # nodes may be on other computers
    assert not nodes.all_found()


@pytest.mark.long  # three controllers beside a robot in Python want an idle machine
def test_a_second_controller_is_refused_and_the_walk_goes_on(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """By its own name or another one."""
    first = processes.start("pixelgait-run", iap_bundle, *AUTO)
    client.wait_for_state("walking")
    reasons = {
        "another node commands the joints: /pixelgait": ("-r", "__node:=second"),
        "another node ": (),  # commands the joints, or has this one's name
    }
    seconds = {
        reason: processes.start("pixelgait-run", iap_bundle, *AUTO, *arguments)
        for reason, arguments in reasons.items()
    }
    wanted = ["second", "second_operator", "second_sensors"]
    named: set[str] = set()

    def known() -> bool:
        named.update(n for n in client.node.get_node_names() if n.startswith("second"))
        return len(named) == len(wanted)

    client.spin(known)
    assert sorted(named) == wanted  # each under a name of its own
    client.spin(lambda: all(each.poll() is not None for each in seconds.values()), 60.0)
    for reason, second in seconds.items():
        last = output_of(second).splitlines()[-1]
        assert last.startswith("error: ")
        assert reason in last
    client.commands.clear()
    client.spin(lambda: len(client.commands) > 50)
    assert client.commands[-1].position
    assert client.states[-1].startswith("walking")
    assert first.poll() is None


def test_a_managed_node_becomes_inactive_on_a_fault(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray
    from std_msgs.msg import Float64MultiArray

    run = processes.start("pixelgait-run", iap_bundle, "--no-autostart", *AUTO)
    events = client.watch_transitions()
    levels: dict[str, tuple[int, str]] = {}

    def keep(message: Any) -> None:
        for status in message.status:
            levels[status.name] = status.level[0], status.message

    client.node.create_subscription(DiagnosticArray, "/diagnostics", keep, 1)
    tables: list[Any] = []
    client.node.create_subscription(Float64MultiArray, "pixelgait/latency", tables.append, 1)
    assert client.transition(1)
    assert client.transition(3)
    assert client.states[-1].startswith(("ready", "walking"))  # activated means that it stands
    client.wait_for_state("walking")
    client.spin(lambda: levels.get("pixelgait: robot") == (0, "walking"))
    client.spin(lambda: levels.get("pixelgait: imu/data", (1, ""))[0] == 0)
    assert levels["pixelgait: loop"][1].endswith("Hz")

    def newest(stage: str) -> Any:
        rows, columns = (dim.label.split(",") for dim in tables[-1].layout.dim)
        return np.array(tables[-1].data).reshape(len(rows), len(columns))[rows.index(stage)]

    # Values cover the last second only, about 10 ms; NaN just after a restart.
    client.spin(lambda: len(tables) > 2 and 5e3 < newest("period")[0] < 5e4)
    p50, p99, most = newest("sensor_to_command")
    assert 0.0 < p50 <= p99 <= most
    robot.roll = 1.5
    client.spin(lambda: "inactive" in events[-1:])
    assert client.state() == "inactive"
    client.spin(lambda: levels["pixelgait: robot"] == (2, "tilted by 1.50 rad"))
    assert run.poll() is None
    robot.roll = 0.0
    assert client.transition(3)
    client.wait_for_state("walking")


# The node, which has no memory left for its report.
FORGETFUL = """
import sys
from pixelgait.robot.ros import node, run
def report(*_):
    raise MemoryError
node.report = report
run.main()
"""


def test_a_node_that_fails_while_it_is_deactivated_does_not_stay_active(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """An active node without a loop would seem to operate the robot."""
    processes.script(FORGETFUL, iap_bundle, "--no-autostart", *AUTO)
    configure, activate, deactivate = 1, 3, 4  # lifecycle_msgs/Transition
    for _ in range(2):
        assert client.transition(configure)
        assert client.transition(activate)
        client.wait_for_state("walking")
        client.transition(deactivate)
        assert client.state() == "unconfigured"
        client.spin(lambda: not client.commands[-1].position)  # damped


@pytest.mark.long
def test_a_new_activation_does_not_count_steps_of_the_previous_walk(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray

    rates_hz: list[float] = []

    def keep(message: Any) -> None:
        for status in message.status:
            if status.name == "pixelgait: loop":
                rates_hz.append(float(status.values[0].value))

    processes.start("pixelgait-run", iap_bundle, "--no-autostart", *PATIENT)
    client.node.create_subscription(DiagnosticArray, "/diagnostics", keep, 10)
    assert client.transition(1)
    for _ in range(2):
        assert client.transition(3)
        before = len(rates_hz)
        client.spin(lambda: len(rates_hz) > before + 2)  # noqa: B023
        assert client.transition(4)  # and at once again: no second passes between
    assert min(rates_hz) >= 0.0, rates_hz


@pytest.mark.slow
def test_diagnostics_report_suspect_and_missing_sensors(
    processes: Processes, iap_bundle: Path, client: Client, robot: FakeRobot
) -> None:
    """The robot is limp, where a silent sensor is no fault yet."""
    run = processes.start("pixelgait-run", iap_bundle, *PATIENT)
    client.wait_for_state("limp")
    newest = client.diagnose()

    def are(wanted: dict[str, int]) -> bool:
        return all(part in newest and told(newest[part])[0] == wanted[part] for part in wanted)

    ok, warn, stale = 0, 1, 3  # diagnostic_msgs/DiagnosticStatus
    camera = "camera/color/image_raw"
    client.spin(lambda: are({"robot": ok, "joint_states": ok, "imu/data": ok, camera: ok}))
    robot.stamp = lambda topic, now: now - (150_000_000 if topic == camera else 0)
    client.spin(lambda: are({"joint_states": ok, camera: warn}))
    assert told(newest[camera])[1].startswith("messages arrive ")
    robot.stamp = lambda topic, now: now
    robot.publish_joints = False
    client.spin(lambda: are({"joint_states": stale, "imu/data": ok, camera: ok}))
    values = told(newest["joint_states"])[2]
    assert (values["stage"], values["taken_hz"]) == ("dead", "0.0")
    assert float(values["age_s"]) >= 2.0  # as it is rounded
    robot.publish_joints = True
    robot.roll = 0.5
    client.spin(lambda: are({"robot": ok, "joint_states": ok}))
    client.spin(lambda: told(newest["robot"])[2]["roll_deg"] == "29")
    assert told(newest["robot"])[2]["pitch_deg"] == "0"
    assert client.order("emergency_stop")[0]
    client.spin(lambda: are({"robot": warn}))
    assert told(newest["robot"])[1] == "stopped"
    assert run.poll() is None


def set_parameter(client: Client, name: str, value: float) -> tuple[bool, str]:
    from rcl_interfaces.srv import SetParameters
    from rclpy.parameter import Parameter

    service = client.node.create_client(SetParameters, "pixelgait/set_parameters")
    message = Parameter(name, value=value).to_parameter_msg()
    result = client.call(service, SetParameters.Request(parameters=[message])).results[0]
    return result.successful, result.reason


def test_parameters_are_refused_or_effective_at_once(
    client: Client, robot: FakeRobot, run: Popen[str]
) -> None:
    name = "timeout_s.camera.color.image_raw"
    for wrong in (-5.0, 0.0, 1e9, float("nan"), float("inf")):
        assert not set_parameter(client, name, wrong)[0], wrong
    assert not set_parameter(client, "use_sim_time", True)[0]
    assert not set_parameter(client, "bundle", "walk")[0]
    accepted, reason = set_parameter(client, name, 0.4)
    assert not accepted
    assert reason == (
        "ageing_s.camera.color.image_raw 0.3, stale_s.camera.color.image_raw 0.5, "
        "timeout_s.camera.color.image_raw 0.4: none may be longer than the next"
    )
    assert run.poll() is None
    robot.publish_camera = False
    assert set_parameter(client, name, 0.5)[0]
    client.spin(lambda: run.poll() is not None)
    assert "at most 0.5 s is allowed" in output_of(run)


def malformed_requests() -> list[tuple[Any, str, Any]]:
    """(service type, name, request): invalid requests."""
    from lifecycle_msgs.srv import ChangeState
    from rcl_interfaces import srv
    from rcl_interfaces.msg import Parameter, ParameterValue
    from type_description_interfaces.srv import GetTypeDescription

    parameters = [
        Parameter(name=name, value=ParameterValue(type=kind, string_value="x", double_value=-1e308))
        for name in ("", "timeout_s.imu.data", "x" * 10_000, "bundle", "\u2028")
        for kind in (0, 1, 2, 3, 4, 9, 10, 200, 255)
    ]
    names = ["", "x" * 10_000, "bundle", "bundle", "\u2028"]
    requests: list[tuple[Any, str, Any]] = [
        (srv.SetParameters, "set_parameters", srv.SetParameters.Request(parameters=[each]))
        for each in parameters
    ]
    atomically, listed = srv.SetParametersAtomically, srv.ListParameters
    describe = srv.DescribeParameters
    requests += [
        (atomically, "set_parameters_atomically", atomically.Request(parameters=parameters)),
        (srv.GetParameters, "get_parameters", srv.GetParameters.Request(names=names)),
        (srv.GetParameterTypes, "get_parameter_types", srv.GetParameterTypes.Request(names=names)),
        (describe, "describe_parameters", describe.Request(names=names)),
        (listed, "list_parameters", listed.Request(prefixes=names, depth=2**64 - 1)),
        (
            GetTypeDescription,
            "get_type_description",
            GetTypeDescription.Request(type_name="x/y/Z", type_hash="none"),
        ),
    ]
    for number, label in ((0, ""), (200, ""), (255, "activate"), (1, "configure"), (0, "nonsense")):
        request = ChangeState.Request()
        request.transition.id, request.transition.label = number, label
        requests.append((ChangeState, "change_state", request))
    return requests


@pytest.mark.slow
def test_invalid_service_requests_do_not_stop_the_walk(client: Client, run: Popen[str]) -> None:
    clients: dict[str, Any] = {}
    for kind, name, request in malformed_requests():
        if name not in clients:
            clients[name] = client.node.create_client(kind, f"pixelgait/{name}")
            assert clients[name].wait_for_service(20.0)
        clients[name].call_async(request)  # some are answered, none must be
        client.spin_for(0.05)
    client.commands.clear()
    client.spin(lambda: len(client.commands) > 50)
    assert client.commands[-1].position
    assert client.states[-1].startswith("walking")
    assert set_parameter(client, "timeout_s.imu.data", 1.5)[0]  # it still responds
    assert client.order("emergency_stop")[0]
    client.wait_for_state("stopped")
    assert run.poll() is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-p", "timeout_s.imu.data:=1"), "timeout_s.imu.data"),
        (("-p", "timeout_s.imu.data:=-1.0"), "timeout_s.imu.data"),
        (("-p", "timeout_s.imu.data:=.nan"), "timeout_s.imu.data"),
        (
            ("-p", "timeout_s.imu.data:=0.05"),
            "parameters ageing_s.imu.data 0.03, stale_s.imu.data 0.06, timeout_s.imu.data 0.05: ",
        ),
        (
            ("-p", "timeout_s.joint_states:=0.2"),
            "timeout_s.joint_states 0.2, driver_timeout_s 0.1: the driver would time out first",
        ),
        (("-p", "use_sim_time:=true"), "use_sim_time is not supported"),
        (("-p", "bundle:=walk"), "and 'walk' as parameter"),
        (("-p", "timeout_s.imu:=0.02"), "'timeout_s.imu', choose from timeout_s.imu.data"),
        (("-p", "timeout_s.joint_state:=0.2"), "choose from timeout_s.joint_states"),
        (
            ("-p", "stale_s.camera:=0.1"),
            "from stale_s.camera.color.image_raw, stale_s.camera.depth.image_rect_raw",
        ),
        (("-p", "ageing_s.nonsense:=3.0"), "unknown parameter 'ageing_s.nonsense', choose from"),
        (("-p", "wings:=2"), "choose from ageing_s.camera.color.image_raw, ageing_s.camera.depth"),
        (("--params-file", "/nowhere.yaml"), "/nowhere.yaml"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_arguments_for_ros_that_cannot_be_used_are_one_clear_line(
    processes: Processes, iap_bundle: Path, arguments: tuple[str, ...], reason: str
) -> None:
    run = processes.start("pixelgait-run", iap_bundle, "--ros-args", *arguments)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "Traceback" not in output
    assert output.strip().splitlines()[-1].startswith("error: ")
    assert reason in output.strip().splitlines()[-1]


@pytest.mark.long
def test_stamped_velocities_drive_the_walk_bundle(
    processes: Processes, client: Client, robot: FakeRobot
) -> None:
    """It walks while commands arrive, and stands 0.5 s after the last."""
    from geometry_msgs.msg import TwistStamped

    run = processes.start("pixelgait-run", "walk", *AUTO, "-p", "enable_stamped_cmd_vel:=true")
    publisher = client.node.create_publisher(TwistStamped, "cmd_vel", 1)
    robot.publish_camera = False  # the policy has no camera
    client.wait_for_state("walking")

    def drive(age_s: float, speed: float = 0.4, aside: float = 0.0) -> None:
        message = TwistStamped()
        now = client.node.get_clock().now().nanoseconds - round(age_s * 1e9)
        message.header.stamp = robot.ros2.stamp(now)
        message.twist.linear.x, message.twist.linear.y = speed, aside
        publisher.publish(message)

    def moving(each: Callable[[], None]) -> float:
        """How far the joints' targets swing within a second [rad]."""
        client.commands.clear()
        for _ in range(20):
            each()
            client.spin_for(0.05)
        return float(np.ptp([c.position for c in client.commands if c.position], axis=0).max())

    told = client.diagnose()

    def is_told(text: str) -> bool:
        return "cmd_vel" in told and text in told["cmd_vel"].message

    assert moving(lambda: None) < 1e-3  # no command yet: it stands
    client.spin(lambda: is_told("no messages: the robot stands"))
    client.spin(lambda: publisher.get_subscription_count())
    drive(0.0)
    assert moving(lambda: drive(0.0)) > 0.2
    client.spin(lambda: drive(0.0) or is_told("follows the newest command"))
    assert moving(lambda: drive(0.0, speed=0.05)) > 0.2  # steps are whole
    aside = "but not linear.y 0.30 (it does not walk sideways)"
    client.spin(lambda: drive(0.0, 0.0, 0.3) or is_told(aside))
    assert told["cmd_vel"].level == b"\x01"
    client.spin(lambda: is_told(" s old: the robot stands"))
    client.spin_for(1.0)
    assert moving(lambda: None) < 1e-3
    assert moving(lambda: drive(2.0)) < 1e-3  # a late command is ignored
    unstamped = TwistStamped()
    unstamped.twist.linear.x = 0.4
    assert moving(lambda: publisher.publish(unstamped)) > 0.2  # it is of now
    assert run.poll() is None


def test_a_velocity_command_from_before_activation_is_ignored(
    processes: Processes, client: Client, robot: FakeRobot
) -> None:
    """The middleware keeps a message until it is taken."""
    from geometry_msgs.msg import Twist

    long = ("-p", "cmd_vel_timeout_s:=10.0")
    processes.start("pixelgait-run", "walk", "--no-autostart", *AUTO, *long)
    publisher = client.node.create_publisher(Twist, "cmd_vel", 1)
    robot.publish_camera = False  # the policy has no camera
    told, message = client.diagnose(), Twist()
    message.linear.x = 0.4
    assert client.transition(1)  # configure
    client.spin(lambda: publisher.get_subscription_count())
    client.spin_for(0.5)  # both have found each other
    publisher.publish(message)
    client.spin_for(0.5)
    assert client.transition(3)  # activate
    client.wait_for_state("walking")

    def swing_rad() -> float:
        """How far the joints' targets move within a second."""
        client.commands.clear()
        client.spin_for(1.0)
        return float(np.ptp([c.position for c in client.commands if c.position], axis=0).max())

    assert swing_rad() < 1e-3
    client.spin(lambda: told["cmd_vel"].message == "no messages: the robot stands")
    publisher.publish(message)
    client.spin_for(0.5)
    assert swing_rad() > 0.2  # a new command is followed


def test_a_joystick_of_another_type_is_reported(
    processes: Processes, client: Client, robot: FakeRobot
) -> None:
    from geometry_msgs.msg import Twist

    processes.start("pixelgait-run", "walk", *AUTO, "-p", "enable_stamped_cmd_vel:=true")
    client.node.create_publisher(Twist, "cmd_vel", 1)
    robot.publish_camera = False
    told = client.diagnose()
    wrong = "is of geometry_msgs/msg/Twist, not geometry_msgs/msg/TwistStamped: the robot stands"
    client.spin(lambda: "cmd_vel" in told and told["cmd_vel"].message == wrong)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [{}, *({name: value} for name, value in LOCAL_VALUES.items())])
def test_sockets_are_open_on_this_computer_only(
    processes: Processes,
    iap_bundle: Path,
    client: Client,
    robot: FakeRobot,
    chosen: dict[str, str],
) -> None:
    """Without shared memory, whether the environment asks for this computer only or not."""
    reach = (*DISCOVERY_VARIABLES, "RMW_IMPLEMENTATION")
    kept = {k: v for k, v in processes.environment.items() if k not in reach}
    processes.environment.clear()
    processes.environment.update(kept | chosen)
    run = processes.start("pixelgait-run", iap_bundle, *PATIENT)
    client.wait_for_state("limp")
    addresses = {address for address, _ in udp_sockets(run.pid)}
    assert addresses
    assert addresses <= {"127.0.0.1", "239.255.0.1"}
    assert "/dev/shm/fastrtps" not in Path(f"/proc/{run.pid}/maps").read_text()


def udp_sockets(pid: int) -> set[tuple[str, int]]:
    """Addresses and ports a process is bound to."""
    own = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found = set()
    for line in Path(f"/proc/{pid}/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        if f"socket:[{fields[9]}]" in own:
            address, port = fields[1].split(":")
            dotted = ".".join(str(int(address[i : i + 2], 16)) for i in (6, 4, 2, 0))
            found.add((dotted, int(port, 16)))
    return found


# A participant that joins, listens for a moment and leaves, as `ros2 topic hz` does.
JOIN = """
import time
import rclpy
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
for _ in range(10):  # participants, one after the other
    rclpy.init()
    node, heard = rclpy.create_node("listener"), []
    for topic in ("joint_states", "joint_command"):
        node.create_subscription(JointState, topic, heard.append, qos_profile_sensor_data)
    begun = time.monotonic()
    while time.monotonic() < begun + (0.5 if heard else 1.5):  # until it has been discovered
        rclpy.spin_once(node, timeout_sec=0.05)
    print("heard", len(heard))
    rclpy.shutdown()
"""


@pytest.mark.long
def test_participants_that_come_and_go_do_not_end_a_walk(
    processes: Processes, iap_bundle: Path, tmp_path: Path, client: Client
) -> None:
    """DDS holds no step up for long: a third of a second with shared memory.

    Time-outs are long, and only steps that published or waited count: a busy machine has no core.
    """
    processes.start("pixelgait-sim", "--scene", "flat")
    arguments = ("--out", tmp_path, *AUTO)
    run = processes.start("pixelgait-run", iap_bundle, *arguments)
    client.wait_for_state("walking")
    join = [sys.executable, "-c", JOIN]
    plain = dict(processes.environment)  # a tool without this package's DDS profile
    for name in PROFILES:
        plain.pop(name, None)
    plain["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    heard: list[int] = []
    for _ in range(3):
        done = subprocess.run(join, env=plain, capture_output=True, text=True, check=True)
        heard += [int(count) for count in re.findall(r"heard (\d+)", done.stdout)]
        client.spin_for(1.0)
    assert len(heard) == 30
    assert sum(count > 0 for count in heard) > 6  # discovery takes longer now and then
    assert run.poll() is None
    assert client.states[-1].startswith("walking")
    assert len(client.commands) > WALKING
    run.send_signal(signal.SIGINT)
    assert run.wait(20) == 0
    report = json.loads((tmp_path / "latency.json").read_text())
    assert report["ticks"] > 1200
    late = {cause: row["max_us"] / 1e6 for cause, row in report["stalls"].items()}
    assert max(late.get("publishing", 0.0), late.get("waiting", 0.0)) < 0.25, late


STRANGER = """
import time
import rclpy
rclpy.init()
node, seen = rclpy.create_node("stranger"), set()
until = time.monotonic() + 8.0
while time.monotonic() < until:
    rclpy.spin_once(node, timeout_sec=0.1)
    seen |= set(node.get_node_names())
print(sorted(seen - {"stranger"}))
"""


@pytest.fixture
def two_computers() -> Iterator[tuple[list[str], list[str]]]:
    """Two network namespaces with a cable in between; what runs a command in each."""
    names = [f"pixelgait{os.getpid()}{side}" for side in "ab"]
    ip = shutil.which("ip")
    if ip is None or subprocess.run([ip, "netns", "add", names[0]], capture_output=True).returncode:
        pytest.skip("needs ip, and the right to make network namespaces")
    try:
        ends = [f"pg{os.getpid() % 10000}{side}" for side in "ab"]
        commands = [f"netns add {names[1]}", f"link add {ends[0]} type veth peer name {ends[1]}"]
        for name, end, address in zip(names, ends, ("10.77.0.1", "10.77.0.2"), strict=True):
            commands += [
                f"link set {end} netns {name}",
                f"-n {name} addr add {address}/24 dev {end}",
                f"-n {name} link set lo up",
                f"-n {name} link set {end} up",
            ]
        for command in commands:
            subprocess.run([ip, *command.split()], check=True)
        yield tuple([ip, "netns", "exec", name] for name in names)  # type: ignore[misc]
    finally:
        for name in names:
            subprocess.run([ip, "netns", "del", name], capture_output=True)


@pytest.mark.slow
def test_a_remote_peer_cannot_connect(
    processes: Processes, iap_bundle: Path, two_computers: tuple[list[str], list[str]]
) -> None:
    here, there = two_computers
    script = Path(sys.executable).parent / "pixelgait-run"
    open_to_all = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET", "ROS_STATIC_PEERS": "10.77.0.1"}
    stranger = {k: v for k, v in processes.environment.items() if k not in PROFILES} | open_to_all
    seen = []
    for environment in (processes.environment, stranger):  # as it is, and open for comparison
        run = subprocess.Popen(
            [*here, script, iap_bundle, "--no-autostart"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            command = [*there, sys.executable, "-c", STRANGER]
            done = subprocess.run(command, env=stranger, capture_output=True, text=True, check=True)
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(20)
        seen.append(done.stdout.strip())
    assert seen[0] == "[]"
    assert "pixelgait" in seen[1]
