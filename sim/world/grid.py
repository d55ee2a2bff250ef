"""Bilinear interpolation between the points of a grid."""

from __future__ import annotations

from pixelgait.robot.spec import Array


def interpolate(grid: Array, row: float, column: float) -> float:
    """Bilinear value of a grid (n, m) at a point within it, in units of its indices."""
    i, j = min(int(row), grid.shape[0] - 2), min(int(column), grid.shape[1] - 2)
    u, v = row - i, column - j
    a, b, c, d = grid[i : i + 2, j : j + 2].ravel().tolist()
    return float((1 - u) * ((1 - v) * a + v * b) + u * ((1 - v) * c + v * d))
