"""What a Go2 tells of its battery and motors, for people to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pixelgait.robot.unitree.messages import Record

# What people are warned of; both ours. Of motors that stand 30 to 50 deg C are reported.
LOW_PERCENT, HOT_DEG_C = 20, 70


def health(state: Record, joints: Sequence[str]) -> Mapping[str, str]:
    """Battery, temperatures and lost packets in an rt/lowstate of a robot with these joints."""
    motors = state["motor_state"][: len(joints)]
    return {
        "battery_percent": str(state["bms_state"]["soc"]),
        "battery_v": f"{state['power_v']:.1f}",
        "hottest_motor_deg_c": str(motors["temperature"].max()),
        "lost_packets": str(motors["lost"].sum()),
    }


def motor_warning(state: Record, joints: Sequence[str]) -> str | None:
    """A low battery, a hot motor, or both; None if all is well."""
    found = []
    if (charge := int(state["bms_state"]["soc"])) < LOW_PERCENT:
        found.append(f"battery at {charge} %")
    heats = state["motor_state"]["temperature"][: len(joints)]
    if (heat := int(heats.max())) >= HOT_DEG_C:
        found.append(f"{joints[int(heats.argmax())]} has {heat} deg C")
    return ", ".join(found) or None
