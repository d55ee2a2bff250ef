"""Fixtures of runs without ROS 2."""

from tests.ros.conftest import link, processes

__all__ = ["link", "processes"]
