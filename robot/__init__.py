"""What runs on the real machine: specification, gait, controller, safety, latency, ROS 2 node.

Nothing here imports torch, PyBullet or any other room of the project.
"""
