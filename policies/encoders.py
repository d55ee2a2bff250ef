"""All image encoders by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pixelgait.policies.brute_force import BruteForceEncoder
from pixelgait.policies.cnn import CNNEncoder
from pixelgait.policies.iap import IAPEncoder
from pixelgait.policies.sit import SiT
from pixelgait.policies.vit import ViT

Encoder = IAPEncoder | BruteForceEncoder | CNNEncoder | SiT | ViT

# Each turns images (B, H, W, C) uint8 into features (B, F) and an attention map (B, H', W').
ENCODERS: dict[str, Callable[..., Encoder]] = {
    "iap": IAPEncoder,
    "iap-favor": partial(IAPEncoder, kernel="favor"),
    "iap-trig": partial(IAPEncoder, kernel="trig"),
    "iap-hybrid": partial(IAPEncoder, kernel="hybrid"),
    "brute-force": BruteForceEncoder,
    "cnn": CNNEncoder,
    "sit": SiT,
    "sit-star": partial(SiT, variant="sit-star"),
    "set": partial(SiT, variant="set"),
    "siet": partial(SiT, variant="siet"),
    "vit": ViT,
}
