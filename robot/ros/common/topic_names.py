"""Topic names, and the contract's names of the sensors behind them."""

from __future__ import annotations

from pixelgait.robot.safety.supervisor import CAMERA

JOINT_STATES, IMU = "joint_states", "imu/data"
COLOUR, DEPTH = "camera/color/image_raw", "camera/depth/image_rect_raw"
BODY = {JOINT_STATES: "joints", IMU: "imu"}
CAMERA_TOPICS = {COLOUR: CAMERA, DEPTH: CAMERA}
TOPICS = {**BODY, **CAMERA_TOPICS}
ODOMETRY, VELOCITY = "odom", "cmd_vel"
STOP_SERVICE = "stop_service"  # parameter
NODE = "pixelgait"
# Status topics in the node's own namespace.
DECISION, LATENCY, DISTANCE = "decision", "latency", "distance_to_goal"
STATE, SENSORS = "state", "sensors"
LOCAL_MAP, LOCAL_HEIGHTS = "local_map", "local_heights"
