"""Plugin of pytest: DDS on loopback without multicast, which qemu does not emulate."""

from pixelgait.robot.unitree import dds

dds._LOCAL = "", "<AllowMulticast>false</AllowMulticast>"
