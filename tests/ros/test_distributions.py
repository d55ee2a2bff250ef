"""What Humble's rclpy lacks, on a node that lacks it as well."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest

from pixelgait.robot.ros.common import distributions
from pixelgait.robot.ros.common.discovery import OwnDomain
from pixelgait.robot.ros.parameters import after_parameters_are_set


class Lacking:
    """An attribute that a class of an older rclpy does not have."""

    def __get__(self, *_: object) -> Any:
        raise AttributeError


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A node of Jazzy's rclpy, or one without what Humble's lacks."""
    import rclpy
    from rclpy.context import Context
    from rclpy.node import Node

    class HumbleNode(Node):
        add_post_set_parameters_callback = Lacking()

    domain, context = OwnDomain(), Context()
    rclpy.init(context=context, domain_id=domain.number)
    kind = HumbleNode if request.param == "humble" else Node
    made = kind("node", context=context)
    yield made
    made.destroy_node()
    context.shutdown()
    domain.close()


@pytest.mark.parametrize("node", ["humble", "jazzy"], indirect=True)
def test_parameters_are_reported_once_they_have_their_values(node: Any) -> None:
    """And refused ones never, whichever of the node's methods or services sets them."""
    from rcl_interfaces.msg import Parameter as ParameterMessage
    from rcl_interfaces.msg import ParameterValue, SetParametersResult
    from rcl_interfaces.srv import SetParameters
    from rclpy.parameter import Parameter

    reported: list[float] = []
    node.declare_parameter("seconds", 1.0)
    node.add_on_set_parameters_callback(
        lambda wanted: SetParametersResult(successful=wanted[0].value < 3.0)
    )
    after_parameters_are_set(node, lambda _: reported.append(node.get_parameter("seconds").value))
    assert node.set_parameters_atomically([Parameter("seconds", value=2.0)]).successful
    assert not node.set_parameters_atomically([Parameter("seconds", value=4.0)]).successful
    (service,) = (each for each in node.services if each.srv_name.endswith("/set_parameters"))
    wanted = ParameterMessage(name="seconds", value=ParameterValue(type=3, double_value=2.5))
    answer = service.callback(SetParameters.Request(parameters=[wanted]), SetParameters.Response())
    assert answer.results[0].successful
    assert reported == [2.0, 2.5]


def test_events_are_found_under_the_name_that_humble_gives_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import rclpy.event_handler as events

    monkeypatch.setitem(sys.modules, "rclpy.event_handler", None)
    monkeypatch.setitem(sys.modules, "rclpy.qos_event", events)
    assert distributions.silent_events().use_default_callbacks is False


@pytest.mark.parametrize(
    ("version", "localhost_only", "profiles"),
    [
        (3, "1", ("FASTRTPS_DEFAULT_PROFILES_FILE",)),
        (7, None, ("FASTRTPS_DEFAULT_PROFILES_FILE",)),
        (9, None, ("FASTDDS_DEFAULT_PROFILES_FILE",)),
    ],
)
def test_a_distribution_gets_the_variables_it_knows(
    version: int,
    localhost_only: str | None,
    profiles: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others give a warning in every process."""
    monkeypatch.setattr(metadata, "version", lambda _: f"{version}.1.6")
    monkeypatch.setattr(os, "environ", {})
    distributions.stay_local()
    assert os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert os.environ.get("ROS_LOCALHOST_ONLY") == localhost_only
    assert distributions.profile_variables() == profiles
