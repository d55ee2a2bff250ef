"""Conflicting nodes: a second driver or a second controller on the robot's topics."""

from __future__ import annotations

from typing import Any

UNKNOWN_NAME = "_NODE_NAME_UNKNOWN_"  # rclpy's, for a node whose publishers are known first
MAX_UNKNOWN_NAME_CHECKS = 10  # before a node without a known name is reported


class OtherNodes:
    """Checks the publishers around a controller's node.

    A sensor topic may have one publisher. The topic of `commands`, if this node publishes it, may
    have no other. A node that was killed stays visible for its lease, 20 s by default.
    """

    def __init__(self, node: Any, sensors: tuple[str, ...], commands: str | None) -> None:
        self._node, self._sensors, self._commands = node, sensors, commands
        self._unknown_name_checks = 0

    def conflicting_publisher(self) -> str | None:
        """A description of a surplus publisher, or None; called periodically."""
        found = self._find()
        if found is None or UNKNOWN_NAME not in found:
            self._unknown_name_checks = 0
            return found
        self._unknown_name_checks += 1
        return found if self._unknown_name_checks > MAX_UNKNOWN_NAME_CHECKS else None

    def duplicate_name(self) -> str | None:
        """That another node has this one's name, or None: either would answer its services."""
        own = self._node.get_fully_qualified_name()
        names = [
            f"{namespace.rstrip('/')}/{name}"
            for name, namespace in self._node.get_node_names_and_namespaces()
        ]
        if names.count(own) <= 1:
            return None
        return f"another node is called {own}: its services would be ambiguous"

    def several(self, topic: str) -> str | None:
        """The publishers of a topic, if there is more than one."""
        names = self._publishers(topic)
        return f"{len(names)} publishers: {', '.join(names)}" if len(names) > 1 else None

    def _find(self) -> str | None:
        for topic in self._sensors:
            if (several := self.several(topic)) is not None:
                return f"{topic} has {several}"
        if self._commands is not None:
            names = self._publishers(self._commands)
            own = self._node.get_fully_qualified_name()
            if own in names:
                names.remove(own)
            if names:
                return f"another node commands the joints: {', '.join(names)}"
        return None

    def _publishers(self, topic: str) -> list[str]:
        """Names of the nodes that publish a topic, one for each publisher."""
        infos = self._node.get_publishers_info_by_topic(topic)  # which expands and remaps it
        return sorted(f"{i.node_namespace.rstrip('/')}/{i.node_name}" for i in infos)
