"""Robot code: specification, gait, controller, safety, latency, ROS 2 node.

Imports neither torch nor a simulator nor another folder of the project.
"""

import os

# onnxruntime 1.31 and newer send telemetry to Microsoft, and keep a device id and a database in
# ~/.cache, unless this is set before the import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
