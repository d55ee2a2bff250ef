"""Plugin of pytest: what qemu does not emulate, and time for what it emulates slowly."""

from pixelgait.robot.recording import recorder
from pixelgait.robot.unitree import dds
from tests import conftest

dds._LOCAL = "", "<AllowMulticast>false</AllowMulticast>"  # DDS on loopback without multicast
# Beside other work the writer's process alone took 20 s, and over a minute, to start.
recorder.CLOSE_S = 600.0
conftest.wait_for.__defaults__ = (600.0,)
