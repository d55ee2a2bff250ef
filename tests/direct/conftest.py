"""Fixtures of runs without ROS 2."""

from tests.ros.conftest import link, processes, pytest_itemcollected

__all__ = ["link", "processes", "pytest_itemcollected"]
