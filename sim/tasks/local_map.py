"""Local map of a simulated robot: the mapper of a real one, fed with the depth of its camera."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pixelgait.robot.control.controller import velocity
from pixelgait.robot.interface import Reading
from pixelgait.robot.mapping.mapper import Mapper
from pixelgait.robot.spec import Array
from pixelgait.sim.body.interface import ChangedBody, SimulatedBody
from pixelgait.sim.body.randomisation import Randomisation, Sample
from pixelgait.sim.body.sensors import apply_stereo
from pixelgait.sim.world.seeds import Stream

PERIOD_S = 0.1  # between depth images; assumption: rendering takes longer than the map


class SimulatedMap:
    """Updated with every reading: takes depth images at its own rate.

    Images have the body's camera's size. They are rendered when they are exposed and reach the map
    after a latency, with errors of a stereo camera; holes stay holes. Both are those of the body's
    randomisation. Time that goes back is another episode.
    """

    def __init__(self, body: SimulatedBody, randomisation: Randomisation | None = None) -> None:
        self._body, self._randomisation = body, randomisation
        camera = body.camera
        self.mapper = Mapper(body.spec, camera.width / camera.height)
        self._view = self.mapper.view(camera.height, camera.width)
        self._time_s = math.inf

    def __call__(self, reading: Reading, wanted: Array) -> float:
        """Update the map; returns the free distance [m] under a latent command (2,)."""
        self.update(reading)
        return self.mapper.free_m(velocity(wanted))

    def update(self, reading: Reading) -> None:
        """Update the map with a reading, and with the images that reach it by then."""
        if reading.time_s < self._time_s:
            self._begin()
        self._time_s = reading.time_s
        self.mapper.step(reading)
        if reading.time_s >= self._due_s - 1e-9:
            self._due_s += PERIOD_S
            self._late.append((reading.time_s, self.depth()))
        while self._late and reading.time_s >= self._late[0][0] + self._sample.camera_latency_s:
            time_s, depth = self._late.popleft()
            self.mapper.add(time_s, self._view.used(depth), self._view)

    def _begin(self) -> None:
        seed, randomisation = self._body.seed, self._randomisation
        self.mapper.forget()
        robot = Stream.ROBOT.rng(seed)
        self._sample = Sample() if randomisation is None else randomisation.sample(robot)
        self._rng = Stream.CAMERA.rng(seed)
        self._late: deque[tuple[float, NDArray[np.float32]]] = deque()  # stamps, depth
        self._due_s = 0.0

    def depth(self) -> NDArray[np.float32]:
        """Depth (H, W) [m] of this instant, as the camera measures it."""
        depth, focal = self._body.render_depth(), self._body.camera.focal_pixels
        return apply_stereo(depth, self._sample, focal, self._rng)


def with_height_scan(
    body: SimulatedBody, randomisation: Randomisation | None = None
) -> SimulatedBody:
    """The body, whose readings have the height scan of a local map: see `SimulatedMap`."""
    return cast(SimulatedBody, HeightScanBody(body, randomisation))


class HeightScanBody(ChangedBody):
    """A `SimulatedBody` with a local map, for low levels that observe the ground."""

    def __init__(self, body: SimulatedBody, randomisation: Randomisation | None) -> None:
        super().__init__(body)
        self._map = SimulatedMap(body, randomisation)

    def _changed(self, reading: Reading) -> Reading:
        self._map.update(reading)
        return replace(reading, height_scan=self._map.mapper.height_scan().astype(np.float64))
