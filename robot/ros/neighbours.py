"""Who else is on the topics: a second driver or a second controller is refused, by name."""

from __future__ import annotations

from typing import Any

from pixelgait.robot.ros import common as ros


def intruder(node: Any, sensors: tuple[str, ...], commands: bool) -> str | None:
    """What is wrong with the publishers around a controller's node, or None.

    A topic of sensors may have one publisher. `joint_command` may have ours alone (`commands`), or
    none of ours. One that was killed is seen for as long as its lease lasts, 20 s by default.
    """
    for topic in sensors:
        found = _publishers(node, topic)
        if len(found) > 1:
            return f"{topic} has {len(found)} publishers: {', '.join(found)}"
    found = _publishers(node, ros.JOINT_COMMAND)
    own = node.get_fully_qualified_name()
    if commands and own in found:
        found.remove(own)
        if found:
            return f"another node commands the joints: {', '.join(found)}"
    return None


def _publishers(node: Any, topic: str) -> list[str]:
    """Names of the nodes that publish a topic, one for each publisher."""
    infos = node.get_publishers_info_by_topic(node.resolve_topic_name(topic))
    return sorted(f"{i.node_namespace.rstrip('/')}/{i.node_name}" for i in infos)
