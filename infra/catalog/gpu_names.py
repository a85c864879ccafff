"""GPUs by NVML's name of the product. Those without MIG profiles here can be used whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from slicewright.infra.catalog.gpus import Gpu
from slicewright.infra.catalog.loading import load
from slicewright.infra.catalog.tsv_rows import read_rows

_HERE = Path(__file__).parent / "data"
_SOURCE = "NVIDIA/open-gpu-kernel-modules, README.md of driver 595.45.04 (2026-03-05)"


def same_name(first: str, second: str) -> bool:
    """True if two names differ in case, spaces, dashes and the word NVIDIA only."""
    return _folded(first) == _folded(second)


@cache
def gpu_of_product(product: str) -> Gpu:
    """The GPU of that name. One that is in no table is taken as it is written, to be used whole."""
    folded = _folded(product)
    return _by_product().get(folded) or _whole_gpus().get(folded) or _unknown(product)


def product_of(model: str) -> str | None:
    """The product whose name, without NVIDIA, is the model's. None: there is none."""
    gpu = _whole_gpus().get(_folded(model))
    return gpu.products[0] if gpu else None


@cache
def _by_product() -> Mapping[str, Gpu]:
    """The GPUs of the catalog by the folded names of their products."""
    gpus = load().gpus.values()
    return MappingProxyType({_folded(name): gpu for gpu in gpus for name in gpu.products})


@cache
def _whole_gpus() -> Mapping[str, Gpu]:
    rows = read_rows(_HERE, "gpu_names.tsv", columns=5)
    return MappingProxyType({_folded(row[0]): _gpu(*row) for row in rows})


def _gpu(name: str, architecture: str, memory_mib: str, mig: str, pci_ids: str) -> Gpu:
    return Gpu(
        name=name.removeprefix("NVIDIA "),
        architecture=cast(Any, architecture),
        products=(name,),
        pci_ids=tuple(pci_ids.split(" ")),
        memory_mib=None if memory_mib == "-" else int(memory_mib),
        sms=None,
        minimum_driver=None,
        profiles=MappingProxyType({}),
        unlisted_mig=mig == "yes",
        source=_SOURCE,
    )


def _unknown(product: str) -> Gpu:
    return Gpu(
        name=product,
        architecture=None,
        products=(product,),
        pci_ids=(),
        memory_mib=None,
        sms=None,
        minimum_driver=None,
        profiles=MappingProxyType({}),
        source="the stack file",
    )


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold()).removeprefix("nvidia")
