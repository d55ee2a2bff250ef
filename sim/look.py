"""How an episode looks and is looked at, where that is not as usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pixelgait.sim.camera import Camera
from pixelgait.sim.texture import Texture


@dataclass(frozen=True, slots=True)
class Look:
    """Light, a camera knocked out of its place, and other textures on a scene's boxes."""

    light: tuple[float, float, float]  # towards it
    shift_m: tuple[float, float, float]  # of the camera, in the base frame
    pitch_rad: float  # further down
    textures: Sequence[Texture]  # of the boxes that have one, fixed ones first

    def through(self, camera: Camera) -> Camera:
        """The camera as it is in this episode."""
        return replace(camera.moved(self.shift_m, self.pitch_rad), light=self.light)
