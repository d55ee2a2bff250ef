"""Moving shapes of a layout, for engines and cameras."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pixelgait.sim.world.motions import layout_motions
from pixelgait.sim.world.scene import Layout, Pose


class MovingShapes:
    """Places the moving shapes of a layout."""

    def __init__(self, layout: Layout) -> None:
        self._motions = layout.motions
        self._arrays = layout_motions(layout)
        self._poses = np.empty((len(layout.motions), 4))

    def poses(self, time_s: float) -> Iterator[tuple[int, Pose]]:
        """Indices of the movable shapes that move, with their poses at a time [s]."""
        if not self._motions:
            return
        from pixelgait.sim.world.motion_kernels import poses_at

        poses_at(self._arrays, time_s, self._poses)
        for motion, pose in zip(self._motions, self._poses.tolist(), strict=True):
            yield motion.shape, Pose(*pose)
