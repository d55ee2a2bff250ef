"""Checks of an encoder's options, which raise ValueError."""

from __future__ import annotations

from pixelgait.robot.control.observation import ENCODINGS


def require_positive(**values: int) -> None:
    """Raises ValueError if one of the named integers is below 1."""
    require_at_least(1, **values)


def require_at_least(least: int, **values: int) -> None:
    """Raises ValueError if one of the named integers is smaller."""
    for name, value in values.items():
        if value < least:
            raise ValueError(f"{name} is {value}, expected at least {least}")


def require_image(height: int, width: int, channels: int) -> None:
    """Raises ValueError for sizes below 1, and channels that no camera has."""
    require_positive(height=height, width=width)
    if channels not in ENCODINGS:
        raise ValueError(f"{channels} channels, images have 1 (depth), 3 (RGB) or 4 (RGB-D)")


def require_tiling(height: int, width: int, channels: int, patch: int) -> None:
    """Raises ValueError unless square patches, `patch` pixels wide, tile the images."""
    image = f"image ({height} x {width})"
    require_image(height, width, channels)
    require_positive(patch=patch)
    if patch > min(height, width):
        raise ValueError(f"patch {patch} is larger than the {image}")
    if height % patch or width % patch:
        raise ValueError(f"the {image} is not a multiple of patch {patch}")


def require_heads(dim: int, heads: int) -> None:
    """Raises ValueError unless `dim` is a multiple of the attention heads."""
    require_positive(dim=dim, heads=heads)
    if dim % heads:
        raise ValueError(f"dim {dim} is not a multiple of {heads} heads")
