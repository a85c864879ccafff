"""The GPU models of the fake, read from the table that the C library is compiled from."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

LIBRARY = Path(__file__).resolve().parent / "library"
"""The C sources; `cc -shared -fPIC -O2 -pthread -Wl,-soname,libnvidia-ml.so.1 LIBRARY/*.c` makes
the library.
"""


class UnknownModel(Exception):
    """The fake has no such GPU model; the message lists those that it has."""


@dataclass(frozen=True, kw_only=True)
class Slice:
    """One GPU instance profile of one model."""

    name: str
    profile: int
    """NVML's profile enum; the state file names profiles by it."""
    id: int
    """NVML's profile id, the number that `nvidia-smi mig -cgi` takes."""
    compute_slices: int
    most: int
    """Maximum number of instances per GPU."""
    starts: tuple[int, ...]
    """Possible first memory slots."""
    size: int
    """Memory slots occupied."""
    sms: int
    memory_mib: int
    copy_engines: int
    decoders: int
    encoders: int
    jpegs: int
    ofas: int


@dataclass(frozen=True, kw_only=True)
class Model:
    """One GPU model."""

    key: str
    name: str
    pci_id: int
    """PCI device id; the vendor is 0x10de."""
    memory_mib: int
    sms: int
    compute_capability: tuple[int, int]
    slots: int
    """Memory slots that MIG divides the GPU into; 0 without MIG."""
    compute_slices: int
    mig: Literal["none", "after reset", "at once"]
    """When a change of MIG mode takes effect."""
    nvlinks: int
    slices: tuple[Slice, ...]

    def slice(self, name: str) -> Slice:
        """The profile called `name`. Raises KeyError."""
        for slice_ in self.slices:
            if slice_.name == name:
                return slice_
        raise KeyError(
            f"{self.name} has no profile {name}; it has "
            f"{', '.join(s.name for s in self.slices) or 'none'}"
        )

    def slice_of(self, profile: int) -> Slice:
        """The profile with NVML's enum `profile`. Raises KeyError."""
        for slice_ in self.slices:
            if slice_.profile == profile:
                return slice_
        raise KeyError(f"{self.name} has no profile with NVML's enum value {profile}")


_MIG: tuple[Literal["none", "after reset", "at once"], ...] = ("none", "after reset", "at once")


@cache
def models() -> Mapping[str, Model]:
    """Every model of the fake, by key."""
    rows: dict[str, list[tuple[object, ...]]] = {"MODEL": [], "SLICE": []}
    for line in (LIBRARY / "models.def").read_text(encoding="utf-8").splitlines():
        name, bracket, rest = line.partition("(")
        if bracket and name in rows:
            rows[name].append(ast.literal_eval("(" + rest))
    slices: dict[str, list[Slice]] = {}
    for key, *row in rows["SLICE"]:
        slices.setdefault(str(key), []).append(_slice(row))
    return MappingProxyType(
        {str(row[0]): _model(row, tuple(slices.get(str(row[0]), ()))) for row in rows["MODEL"]}
    )


def model(key: str) -> Model:
    """Raises UnknownModel."""
    try:
        return models()[key]
    except KeyError:
        raise UnknownModel(
            f"the fake has no GPU model {key!r}; it has {', '.join(models())}"
        ) from None


def _model(row: tuple[object, ...], slices: tuple[Slice, ...]) -> Model:
    key, name, *rest = row
    pci_id, memory_mib, sms, slots, compute_slices, major, minor, _, _, mig, _, nvlinks, *_ = (
        int(str(n)) for n in rest
    )
    return Model(
        key=str(key),
        name=str(name),
        pci_id=pci_id,
        memory_mib=memory_mib,
        sms=sms,
        compute_capability=(major, minor),
        slots=slots,
        compute_slices=compute_slices,
        mig=_MIG[mig],
        nvlinks=nvlinks,
        slices=slices,
    )


def _slice(row: list[object]) -> Slice:
    name, *rest = row
    (
        profile,
        id_,
        compute_slices,
        most,
        starts,
        size,
        sms,
        memory_mib,
        copy_engines,
        decoders,
        encoders,
        jpegs,
        ofas,
        _,
    ) = (int(str(n)) for n in rest)
    return Slice(
        name=str(name),
        profile=profile,
        id=id_,
        compute_slices=compute_slices,
        most=most,
        starts=tuple(bit for bit in range(starts.bit_length()) if starts >> bit & 1),
        size=size,
        sms=sms,
        memory_mib=memory_mib,
        copy_engines=copy_engines,
        decoders=decoders,
        encoders=encoders,
        jpegs=jpegs,
        ofas=ofas,
    )
