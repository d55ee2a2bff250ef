"""Registry of image encoders: makes one from a name with options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from pixelgait.policies.encoders.attention_neuron import AttentionNeuron
from pixelgait.policies.encoders.cnn import CNNEncoder
from pixelgait.policies.encoders.encoder import Encoder
from pixelgait.policies.encoders.ge_vit.encoder import GEViT
from pixelgait.policies.encoders.iap.brute_force import BruteForceEncoder
from pixelgait.policies.encoders.iap.encoder import IAPEncoder
from pixelgait.policies.encoders.latformer.encoder import LatFormer
from pixelgait.policies.encoders.sit.encoder import SiT
from pixelgait.policies.encoders.strided import StridedEncoder
from pixelgait.policies.encoders.vit import ViT

ENCODERS: dict[str, Callable[..., Encoder]] = {
    "iap": IAPEncoder,
    "iap-favor": partial(IAPEncoder, kernel="favor"),
    "iap-trig": partial(IAPEncoder, kernel="trig"),
    "iap-hybrid": partial(IAPEncoder, kernel="hybrid"),
    "brute-force": BruteForceEncoder,
    # As published: 529 patches of 96 x 96 pixels (arXiv 2003.08165, section 4); memory lstm:16.
    "attention-agent": partial(
        BruteForceEncoder, height=96, width=96, patch=7, stride=4, dim=4, selected=10
    ),
    "cnn": CNNEncoder,
    "strided": StridedEncoder,
    "sit": SiT,
    "sit-star": partial(SiT, variant="sit-star"),
    "set": partial(SiT, variant="set"),
    "siet": partial(SiT, variant="siet"),
    "vit": ViT,
    "ge-vit": GEViT,
    "gsa-net": partial(GEViT, encoding="gsa-net"),
    "latformer": LatFormer,
    "attention-neuron": AttentionNeuron,
}


def make_encoder(config: str, **options: Any) -> Encoder:
    """An encoder from a name with options, as in "iap" or "iap:patch=4,stride=4,selected=16".

    Args:
        options: further options, such as height, width and channels.

    Raises:
        ValueError: if the encoder or an option does not exist, or options do not fit each other.
    """
    name, _, rest = config.partition(":")
    if name not in ENCODERS:
        raise ValueError(f"unknown encoder '{name}', choose from {', '.join(ENCODERS)}")
    known = signature(ENCODERS[name]).parameters
    given: set[str] = set()
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            raise ValueError(f"encoder '{name}' has no option '{part}', it has {', '.join(known)}")
        if key in given:
            raise ValueError(f"encoder '{name}': option '{key}' is given twice")
        given.add(key)
        options[key] = _value(value, known[key].default, f"{name}: {key}")
    try:
        return ENCODERS[name](**options)
    except (RuntimeError, MemoryError, TypeError) as error:  # torch: sizes beyond memory or int64
        reason = str(error).splitlines()[0] if str(error) else "not enough memory"
        raise ValueError(f"encoder '{config}' cannot be built: {reason}") from error


def _value(text: str, default: object, where: str) -> object:
    """The text as a value of the default's type."""
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise ValueError(f"{where} is '{text}', expected true or false")
        return text == "true"
    try:
        return type(default)(text)  # type: ignore[call-arg]
    except ValueError:
        kind = type(default).__name__
        raise ValueError(f"{where} is '{text}', expected a value of type {kind}") from None
