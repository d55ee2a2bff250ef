"""What a Go2's wire costs in Python, without a network: it is spoken 500 times a second."""

from __future__ import annotations

import timeit

from pixelgait.robot.unitree.messages import LOW_CMD, LOW_STATE, Codec, checksum

PAIRS, ROUNDS = 2000, 5


def wire_costs() -> dict[str, float]:
    """Of the fastest round: a state decoded and checked, a command summed up and encoded [us]."""
    states, commands = Codec(LOW_STATE), Codec(LOW_CMD)
    data, command = states.encode(states.new()), commands.new()

    def pair() -> None:
        checksum(states.decode(data))
        command["crc"] = checksum(command)
        commands.encode(command)

    seconds = min(timeit.repeat(pair, number=PAIRS, repeat=ROUNDS))
    return {"go2_pair_us": 1e6 * seconds / PAIRS}
