"""The differences between two readings of a GPU, the real one's and the fake's. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_ABSENT = "(absent)"
# Properties of the GPU model; not those of the single board, such as its UUID or temperature.
_COMPARED = (
    "model",
    "pci_device",
    "compute_capability",
    "memory_mib",
    "mig",
    "mig_pending",
    "memory_slices",
    "places",
    "error_texts",
    "constants",
    "answers",
    "fields",
    "utilization_metrics",
)
_OF_A_DEVICE = ("gpu_slices", "compute_slices", "memory_mib", "multiprocessors", "engines", "name")


@dataclass(frozen=True, kw_only=True)
class Difference:
    what: str
    """`profile 3g.40gb, multiprocessors`"""
    real: str
    fake: str


def differences(real: Mapping[str, Any], fake: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Of two GPUs as read by `reading`; what only one of them has is a difference, too."""
    of_fake, of_real = dict(_facts(fake)), dict(_facts(real))
    return tuple(
        Difference(
            what=what, real=str(of_real.get(what, _ABSENT)), fake=str(of_fake.get(what, _ABSENT))
        )
        for what in [*of_real, *(what for what in of_fake if what not in of_real)]
        if of_real.get(what, _ABSENT) != of_fake.get(what, _ABSENT)
    )


def _facts(gpu: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in _COMPARED:
        yield from _flat(key, gpu[key])
    for profile in gpu["offered"]:
        name = profile["name"] or f"number {profile['id']}"
        for key, value in profile.items():
            if key != "name":
                yield from _flat(f"profile {name}, {key}", value)
    # By content: the ids of instances depend on the order of their creation.
    devices = sorted(({key: d[key] for key in _OF_A_DEVICE} for d in gpu["devices"]), key=str)
    for position, device in enumerate(devices):
        yield from _flat(f"MIG device {position}", device)
    # Whether utilization can be read, or the error code; not its value.
    failure = gpu["utilization_failure"]
    yield "utilization", f"{failure['call']}: code {failure['code']}" if failure else "measured"


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}, {key}", inner)
    else:
        yield name, value
