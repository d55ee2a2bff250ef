"""The node's parameters as `ros2 param describe` shows them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pixelgait.robot.errors import UserError
from pixelgait.robot.ros.parameters import NodeOptions
from tests.helpers import change_contract
from tests.ros.support import PATIENT, Client, Processes

SENSORS = ("joint_states", "imu.data", "camera.color.image_raw", "camera.depth.image_rect_raw")
RANGES_S = {
    **{
        f"{stage}.{sensor}": (0.02, 10.0) for sensor in SENSORS for stage in ("ageing_s", "stale_s")
    },
    **{f"timeout_s.{sensor}": (0.02, 10.0) for sensor in SENSORS},
    **dict.fromkeys(("driver_timeout_s", "odom_timeout_s", "cmd_vel_timeout_s"), (0.02, 10.0)),
    "goal_timeout_s": (0.0, 3600.0),
}
READ_ONLY = {"bundle", "enable_stamped_cmd_vel", "base_frame", "stop_service", "map", "publish_tf"}
OTHERS = {"check_camera", "check_power", "collision_guard"}
# Parameters that every rclpy node declares.
RCLPY = {"use_sim_time", "start_type_description_service"}


def test_every_parameter_says_what_it_does_and_what_it_takes(
    processes: Processes, iap_bundle: Path, client: Client
) -> None:
    processes.start("pixelgait-run", iap_bundle, "--no-autostart", *PATIENT)
    described = describe_all(client)
    assert set(described) - RCLPY == {*RANGES_S, *READ_ONLY, *OTHERS}
    for name in set(described) - RCLPY:
        descriptor = described[name]
        assert descriptor.description.endswith("."), name
        assert descriptor.read_only == (name in READ_ONLY), name
        ranges = [(each.from_value, each.to_value) for each in descriptor.floating_point_range]
        assert ranges == ([RANGES_S[name]] if name in RANGES_S else []), name
    assert described["timeout_s.imu.data"].description == (
        "The robot is damped when imu/data sends nothing new for so long [s]."
    )


def test_parameters_of_other_nodes_in_the_same_file_are_ignored(
    processes: Processes, iap_bundle: Path, client: Client, tmp_path: Path
) -> None:
    """Unknown names are refused in the node's own namespace only, and rclpy's own never."""
    file = tmp_path / "robot.yaml"
    file.write_text(
        "driver:\n  ros__parameters: {port: 3, timeout_s: {imu: 0.1}}\n"
        "/**:\n  ros__parameters: {use_sim_time: false}\n"
        "pixelgait:\n  ros__parameters:\n    timeout_s: {imu: {data: 0.3}}\n"
        "    qos_overrides: {/parameter_events: {publisher: {depth: 10}}}\n"
    )
    run = processes.start(
        "pixelgait-run", iap_bundle, "--no-autostart", "--ros-args", "--params-file", file
    )
    assert client.state() == "unconfigured"
    assert run.poll() is None
    assert value(client, "timeout_s.imu.data") == 0.3
    assert value(client, "timeout_s.joint_states") == 0.1  # the default


def test_a_bundle_of_another_version_is_named_as_such(iap_bundle: Path, tmp_path: Path) -> None:
    """Its contract has no time-outs, from which the parameters start."""
    folder = Path(shutil.copytree(iap_bundle, tmp_path / "old"))

    def age(contract: dict[str, Any]) -> None:
        contract["schema"] = 2
        del contract["sensor_timeouts"]

    change_contract(folder, age)
    with pytest.raises(UserError, match=r"contract\.json: schema 2, this version reads 5$"):
        NodeOptions(str(folder)).sensor_timeouts()


def test_time_outs_in_whole_seconds_may_be_changed(
    processes: Processes, iap_bundle: Path, client: Client, tmp_path: Path
) -> None:
    """The contract has 2 instead of 2.0, as written by JavaScript."""
    folder = aged(iap_bundle, tmp_path, 2)
    name = "timeout_s.camera.color.image_raw"
    processes.start("pixelgait-run", folder, "--no-autostart", "--ros-args", "-p", f"{name}:=1.5")
    assert client.state() == "unconfigured"
    assert value(client, name) == 1.5


@pytest.mark.parametrize(
    ("age", "told"),
    [
        (10**400, "contract: sensor_timeouts needs joints, imu, camera, each with "),
        (10**30, "parameter: "),
        (1e30, "parameter: "),
    ],
    ids=["too large for a float", "whole", "float"],
)
def test_infinite_time_outs_are_refused(
    processes: Processes, iap_bundle: Path, tmp_path: Path, age: float, told: str
) -> None:
    run = processes.start("pixelgait-run", aged(iap_bundle, tmp_path, age), "--no-autostart")
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "Traceback" not in output
    assert told in output.splitlines()[-1]


def aged(bundle: Path, folder: Path, dead_s: float) -> Path:
    """A copy of the bundle with another camera time-out in its contract."""
    copy = Path(shutil.copytree(bundle, folder / "copy"))
    change_contract(
        copy, lambda contract: contract["sensor_timeouts"]["camera"].update(dead_s=dead_s)
    )
    return copy


def describe_all(client: Client) -> dict[str, Any]:
    """The descriptors of all parameters of the node."""
    from rcl_interfaces.srv import DescribeParameters, ListParameters

    lister = client.node.create_client(ListParameters, "pixelgait/list_parameters")
    names = client.call(lister, ListParameters.Request()).result.names
    describer = client.node.create_client(DescribeParameters, "pixelgait/describe_parameters")
    answer = client.call(describer, DescribeParameters.Request(names=names))
    return dict(zip(names, answer.descriptors, strict=True))


def value(client: Client, name: str) -> float:
    """The value of a parameter."""
    from rcl_interfaces.srv import GetParameters

    getter = client.node.create_client(GetParameters, "pixelgait/get_parameters")
    answer = client.call(getter, GetParameters.Request(names=[name]))
    return float(answer.values[0].double_value)
