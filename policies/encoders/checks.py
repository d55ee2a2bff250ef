"""Checks of an encoder's options: what makes no sense raises ValueError."""

from __future__ import annotations

from pixelgait.robot.control.observation import ENCODINGS

# More takes minutes to export, or more memory than there is; ours.
MOST_PIXELS = 1024  # of an image's height and width
MOST_SEEDS = 1 << 32
MOST_OTHERWISE = 1024
MOST = {
    "layers": 32,
    "local_layers": 32,
    "global_layers": 32,
    "r": 64,
    "mlp_ratio": 64,
    "selected": MOST_PIXELS**2,
}


def require_positive(**values: int) -> None:
    """Raises ValueError if one of the named integers is below 1, or takes hours."""
    require_at_least(1, **values)


def require_at_least(least: int, **values: int) -> None:
    """Raises ValueError if one of the named integers is smaller, or takes hours."""
    for name, value in values.items():
        most = MOST.get(name, MOST_OTHERWISE)
        if value < least:
            raise ValueError(f"{name} is {value}, expected at least {least}")
        if value > most:
            raise ValueError(f"{name} is {value}, expected at most {most}")


def require_seed(seed: int) -> None:
    """Raises ValueError for what seeds no random numbers."""
    if not 0 <= seed < MOST_SEEDS:
        raise ValueError(f"seed is {seed}, expected 0 to {MOST_SEEDS - 1}")


def require_few(patches: int, most: int) -> None:
    """Raises ValueError for more patches than all-to-all attention has time and memory for."""
    if patches > most:
        raise ValueError(f"{patches} patches are too many, this encoder takes at most {most}")


def require_image(height: int, width: int, channels: int) -> None:
    """Raises ValueError for images of which there is no camera, or that take minutes."""
    require_channels(channels)
    for name, size in (("height", height), ("width", width)):
        if not 1 <= size <= MOST_PIXELS:
            raise ValueError(f"{name} is {size}, expected 1 to {MOST_PIXELS}")


def require_channels(channels: int) -> None:
    """Raises ValueError for images of which there is no camera."""
    if channels not in ENCODINGS:
        raise ValueError(f"{channels} channels, images have 1 (depth), 3 (RGB) or 4 (RGB-D)")


def require_tiling(
    height: int, width: int, channels: int, patch: int, most: int = MOST_PIXELS**2
) -> None:
    """Raises ValueError unless patches (squares, side in pixels), not too many, tile the images."""
    image = f"image ({height} x {width})"
    require_image(height, width, channels)
    require_positive(patch=patch)
    if patch > min(height, width):
        raise ValueError(f"patch {patch} is larger than the {image}")
    if height % patch or width % patch:
        raise ValueError(f"the {image} is not a multiple of patch {patch}")
    require_few(height // patch * (width // patch), most)


def require_heads(dim: int, heads: int) -> None:
    """Raises ValueError unless heads of attention share `dim` evenly."""
    require_positive(dim=dim, heads=heads)
    if dim % heads:
        raise ValueError(f"dim {dim} is not a multiple of {heads} heads")
