"""Who else is on the topics: a second driver or a second controller is refused, by name."""

from __future__ import annotations

from typing import Any

UNNAMED = "_NODE_NAME_UNKNOWN_"  # rclpy's, of a node whose publishers are known before its name
MAX_UNNAMED_LOOKS = 10  # looks, before it is refused without a name


class OtherNodes:
    """Looks at the publishers around a controller's node.

    A topic of sensors may have one. The topic of its `commands`, if it sends any, may have the
    node's own alone. One that was killed is seen as long as its lease lasts, 20 s by default.
    """

    def __init__(self, node: Any, sensors: tuple[str, ...], commands: str | None) -> None:
        self._node, self._sensors, self._commands = node, sensors, commands
        self._unnamed = 0

    def conflicting_publisher(self) -> str | None:
        """Who is one too many, or None; called now and then."""
        found = self._find()
        if found is None or UNNAMED not in found:
            self._unnamed = 0
            return found
        self._unnamed += 1
        return found if self._unnamed > MAX_UNNAMED_LOOKS else None

    def duplicate_name(self) -> str | None:
        """That another node has this one's name: orders would be answered by either."""
        own = self._node.get_fully_qualified_name()
        there = self._node.get_node_names_and_namespaces()
        names = [f"{namespace.rstrip('/')}/{name}" for name, namespace in there]
        several = names.count(own) > 1
        return f"another node is called {own}: orders would go to both" if several else None

    def several(self, topic: str) -> str | None:
        """The publishers of a topic, if there are more than one."""
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
