"""Drive of shapes that push with a limited force, as a person's legs do."""

from __future__ import annotations

import math

MASS_KG = 11.0  # a leg: 16 % of a person of 70 kg (Winter 2009)
CATCH_UP_PER_S = 10.0  # speed per distance behind; with the next, critically damped
FASTEST_CATCH_UP_M_PER_S = 1.0  # assumption
SPEED_UP_PER_S = 40.0  # acceleration per lack of speed


def driving_force(
    behind_m: tuple[float, float], slower_m_per_s: tuple[float, float], limit_n: float
) -> tuple[float, float]:
    """Horizontal force x, y [N] that keeps a shape at its motion's pose.

    Args:
        behind_m: Way to the pose, x, y.
        slower_m_per_s: Velocity of the motion less that of the shape, x, y.
        limit_n: Greatest force.
    """
    x, y = (CATCH_UP_PER_S * behind for behind in behind_m)
    too_fast = max(1.0, math.hypot(x, y) / FASTEST_CATCH_UP_M_PER_S)
    x = MASS_KG * SPEED_UP_PER_S * (x / too_fast + slower_m_per_s[0])
    y = MASS_KG * SPEED_UP_PER_S * (y / too_fast + slower_m_per_s[1])
    too_strong = max(1.0, math.hypot(x, y) / limit_n)
    return x / too_strong, y / too_strong
