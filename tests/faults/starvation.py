"""Words of a controller whose robot's process got no time, on a busy machine."""

import re

# Nothing was heard for less than a second: a driver that was stopped is silent for longer.
STARVED = re.compile(
    r"(joint_states|imu/data|lowstate) is silent for 0\.\d+ s"
    r"|the IMU shows the same for 0\.\d+ s|the IMU's rate is the same for 0\.\d+ s"
    r"|([5-9]\d\d|\d{4,}) physics steps began late"  # of 500 a second
    # The oldest reading of a walk [us], of a robot that sends every 2 ms: a report's last column.
    r"|age of (joint_states|lowstate) +(\d+ +){5}([2-9]\d{4}|\d{6,})\b"
)
