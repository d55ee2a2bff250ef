"""Simulated bodies, scenes, cameras, tasks, Gymnasium environments and the ROS 2 stand-in robot."""
