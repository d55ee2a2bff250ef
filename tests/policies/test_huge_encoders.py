"""Encoders nobody has the memory or the hours for: refused in a line, before anything is made."""

from __future__ import annotations

import pytest
import torch

from pixelgait.policies.encoder_registry import make_encoder
from pixelgait.policies.encoders.latformer.experts import Lattice, MaskExpert

HUGE = {
    "iap:dim=1000000000": "dim is 1000000000, expected at most 1024",
    "iap:values=1000000000": "values is 1000000000, expected at most 1024",
    "iap:kernel=favor,m=1000000000": "m is 1000000000, expected at most 1024",
    "iap-hybrid:r=1000000000": "r is 1000000000, expected at most 64",
    "iap-hybrid:m=1024,r=64,height=1024,width=1024": (
        "m 1024 and r 64 are too many for 1048576 patches, expected at most 2016"
    ),
    "iap:stride=1025": "stride is 1025, expected at most 1024",
    "brute-force:height=1024,width=1024": "1048576 patches are too many, this encoder takes at",
    "sit:dim=80000": "dim is 80000, expected at most 1024",
    "sit:local_layers=33": "local_layers is 33, expected at most 32",
    "sit:global_layers=33": "global_layers is 33, expected at most 32",
    "sit:height=512,width=512": "4096 patches are too many, this encoder takes at most 1200",
    "vit:dim=800000": "dim is 800000, expected at most 1024",
    "vit:layers=100000": "layers is 100000, expected at most 32",
    "vit:mlp_ratio=65": "mlp_ratio is 65, expected at most 64",
    "vit:height=1024,width=1024,patch=1": "1048576 patches are too many",
    "ge-vit:dim=400000": "dim is 400000, expected at most 1024",
    "ge-vit:window=100001": "window is 100001, expected at most 31",
    "ge-vit:group=C8,patch=1,window=31": (
        "window 31 around 1024 patches, 4 heads and group 'C8' make 2015363072 scores, expected"
    ),
    "ge-vit:layers=100000": "layers is 100000, expected at most 32",
    "ge-vit:height=512,width=512,patch=1": "262144 patches are too many",
    "latformer:dim=400000": "dim is 400000, expected at most 1024",
    "attention-neuron:rows=1000000000": "rows is 1000000000, expected at most 1024",
    "attention-neuron:dim=1000000000": "dim is 1000000000, expected at most 1024",
    "attention-neuron:message=1": "message is 1, expected at least 2",
    "iap:seed=-1": "seed is -1, expected 0 to 4294967295",
    "iap:seed=-1,kernel=favor": "seed is -1, expected 0 to 4294967295",
}


@pytest.mark.parametrize("encoder", HUGE)
def test_what_takes_hours_or_all_memory_is_refused_by_name(encoder: str) -> None:
    with pytest.raises(ValueError, match=HUGE[encoder]):
        make_encoder(encoder)


def test_experts_are_named_but_once_and_nothing_smooths_scaling() -> None:
    with pytest.raises(ValueError, match=r"experts are rotation\+rotation, expected each but once"):
        make_encoder("latformer:experts=rotation+rotation")
    spread = MaskExpert(Lattice(3, 3, ("scaling",), powers=2)).smoothing(0.5)
    torch.testing.assert_close(spread, torch.eye(9))
