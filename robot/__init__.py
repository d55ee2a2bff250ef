"""What runs on the real machine: specification, gait, controller, safety, latency, ROS 2 node.

Nothing here imports torch, PyBullet or any other folder of the project.
"""

import os

# onnxruntime 1.31 and newer report their use to Microsoft, and keep a device id and a database in
# ~/.cache, unless this says otherwise before they are imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
