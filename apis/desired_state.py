"""The desired-state file, version v1: how a node of a pool must look.

The Pulumi program writes it, the agent reads it. Standard library only, because infra imports it.
The file is JSON:

    {"version": "v1", "pool": "h100-partition-3g", "partitioner": "gke",
     "gpu_count": 8, "gpu_models": ["NVIDIA H100 80GB HBM3"], "gpu_memory_mib": 81559,
     "gpus": [{"index": "all", "mig": true, "instances": {"3g.40gb": 2}}],
     "resources": {"nvidia.com/gpu": 16}}

`dump` leaves out optional keys that have their default. A later version of this module that knows
more keys therefore gives today's layouts the same text, and the same hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, get_args

VERSION = "v1"
LARGEST: Final = 256 * 1024
"""Longest desired state in characters: the limit for all annotations of an object together. Source:
k8s.io/apimachinery, pkg/api/validation (TotalAnnotationSizeLimitB).
"""
_DEEPEST: Final = 8
_MOST_GPUS: Final = 1024
_MOST_PROBLEMS: Final = 20
_LONGEST_PROBLEM: Final = 300

Partitioner = Literal["gke", "bottlerocket", "mig-manager", "none"]
"""The component that partitions the GPUs: GKE's node set-up, Bottlerocket at boot, NVIDIA's
mig-manager, or none.
"""
SharingStrategy = Literal["time-slicing", "mps"]

_PROFILE = re.compile(
    r"(?:[1-9]\d?c\.)?[1-9]\d?g\.\d{1,4}gb(?:[+-][a-z][a-z0-9.]*(?:,[a-z][a-z0-9.]*)*)?"
)
# An extended resource is a qualified name: DNS subdomain, slash, name. (Kubernetes API
# conventions.)
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_DRIVER = re.compile(r"\d+\.\d+(?:\.\d+)?")


class DesiredError(ValueError):
    """The file is not a valid desired state. The message lists every problem."""


@dataclass(frozen=True, kw_only=True)
class DesiredGpu:
    """The desired state of one GPU, or of every GPU, of the node."""

    index: int | Literal["all"]
    """NVML index of the GPU on the node. `"all"` must be the only entry."""
    mig: bool
    instances: Mapping[str, int] = field(default_factory=dict)
    """MIG profile, as NVIDIA writes it (`3g.40gb`, `1g.10gb+me`, `1c.3g.40gb`) -> count of MIG
    devices. Empty without MIG.
    """


@dataclass(frozen=True, kw_only=True)
class DesiredSharing:
    """`resource` is advertised `replicas` times per device. `Desired.resources` has the product."""

    resource: str
    strategy: SharingStrategy
    replicas: int


@dataclass(frozen=True, kw_only=True)
class Desired:
    """The desired state of every node of a pool. `check`, `dump` and `parse` validate it."""

    pool: str
    partitioner: Partitioner
    gpu_count: int
    gpu_models: tuple[str, ...]
    """The accepted NVML product names, for example `NVIDIA H100 80GB HBM3`. At least one."""
    gpus: tuple[DesiredGpu, ...]
    """One entry with index "all", or one entry for each index from 0 to gpu_count - 1."""
    resources: Mapping[str, int]
    """Extended resource -> quantity, in the Node's capacity and in its allocatable. Resources
    `nvidia.com/gpu*` and `nvidia.com/mig-*` that are not named here must be absent or 0.
    """
    gpu_memory_mib: int | None = None
    """Total memory of one GPU in MiB, as NVML gives it. It names the instances by their size if the
    driver hides the total: in MIG mode, reading the parent's memory needs privileges.
    """
    minimum_driver: str | None = None
    """Oldest driver that supports the layout, for example `525.60.13`."""
    sharing: tuple[DesiredSharing, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Label of the Node -> its possible values, as GPU feature discovery writes them."""

    def gpu(self, index: int) -> DesiredGpu:
        """Returns the desired state of the GPU with this NVML index.

        Raises KeyError if the layout has no such GPU.
        """
        for entry in self.gpus:
            if entry.index in ("all", index) and index < self.gpu_count:
                return entry
        raise KeyError(index)


def parse(text: str, *, source: str = "desired state") -> Desired:
    """Parses the desired state in `text`.

    Raises DesiredError, which names `source` and every problem with its path.
    """
    if len(text) > LARGEST:
        raise DesiredError(f"{source}: longer than {LARGEST} characters, which no layout needs")
    try:
        raw = json.loads(text)
    except ValueError as e:
        raise DesiredError(f"{source}: not JSON: {e}") from None
    except RecursionError:
        raise DesiredError(f"{source}: nested too deep for a desired state") from None
    if _is_deeper(raw, _DEEPEST):
        raise DesiredError(f"{source}: nested more than {_DEEPEST} levels deep")
    reader = _Reader()
    desired = _read(reader, raw)
    problems = reader.problems or (check(desired) if desired else ())
    if problems or desired is None:
        raise DesiredError(_listed(source, problems))
    try:
        hash_of(desired)
    except UnicodeEncodeError:
        raise DesiredError(f"{source}: half of a surrogate pair in a string") from None
    return desired


def _is_deeper(value: Any, most: int) -> bool:
    """True if lists and objects are nested in more than `most` levels."""
    level = [value]
    for _ in range(most + 1):
        inner = [one.values() if isinstance(one, dict) else one for one in level if _holds(one)]
        level = [child for children in inner for child in children]
    return any(map(_holds, level))


def _holds(value: Any) -> bool:
    return isinstance(value, dict | list)


def assigned_or_declared(assigned: str, declared: Desired) -> Desired:
    """Returns the layout that the fleet controller assigned to the node: an earlier one of the
    pool.

    Returns `declared` if `assigned` is empty, invalid or for another pool. The report then names
    the hash of `declared`, so the controller does not mistake it for a report on `assigned`.
    """
    try:
        found = parse(assigned) if assigned else declared
    except DesiredError:
        return declared
    return found if found.pool == declared.pool else declared


def dump(desired: Desired) -> str:
    """Returns canonical JSON: equal states give equal bytes, regardless of how they were built.

    Raises DesiredError if `desired` contradicts itself.
    """
    problems = check(desired)
    if problems:
        raise DesiredError(_listed(f"desired state of pool {desired.pool!r}", problems))
    return _CANONICAL.encode(_raw(desired))


def hash_of(desired: Desired) -> str:
    """Returns the SHA-256 of the canonical JSON, as 64 hexadecimal digits.

    It is in `GPUPool.spec.layoutHash` and in every node's report.
    """
    return digest(dump(desired))


def digest(canonical: str) -> str:
    """Returns `hash_of` for the text that `dump` returned."""
    return hashlib.sha256(canonical.encode()).hexdigest()


def check(desired: Desired) -> tuple[str, ...]:
    """Returns every contradiction in `desired`, or an empty tuple."""
    problems: list[str] = []
    if not desired.pool:
        problems.append("pool: is empty; write the pool's name")
    if desired.gpu_count < 1:
        problems.append(f"gpu_count: {desired.gpu_count}; must be at least 1")
    if desired.gpu_count > _MOST_GPUS:
        problems.append(f"gpu_count: more than {_MOST_GPUS}, which no node has")
    if not desired.gpu_models or not all(desired.gpu_models):
        problems.append(
            "gpu_models: name at least one NVML product name, for example 'NVIDIA H100 80GB HBM3'"
        )
    if desired.gpu_memory_mib is not None and desired.gpu_memory_mib < 1:
        problems.append(
            f"gpu_memory_mib: {desired.gpu_memory_mib}; MiB of one whole GPU, or leave it out"
        )
    if desired.minimum_driver is not None and not _DRIVER.fullmatch(desired.minimum_driver):
        problems.append(
            f"minimum_driver: {desired.minimum_driver!r} is not a driver version; write it "
            "like 525.60.13"
        )
    problems += _check_gpus(desired)
    for name, quantity in desired.resources.items():
        if not _is_resource(name):
            problems.append(
                f"resources: {name!r} is not an extended resource; write it like nvidia.com/gpu"
            )
        if quantity < 0:
            problems.append(f"resources.{name}: {quantity}; must be 0 or more")
    for position, sharing in enumerate(desired.sharing):
        if sharing.resource not in desired.resources:
            known = ", ".join(sorted(desired.resources)) or "empty"
            problems.append(
                f"sharing[{position}].resource: {sharing.resource!r} is not in resources ({known})"
            )
        elif sharing.replicas < 2 or desired.resources[sharing.resource] % sharing.replicas:
            problems.append(
                f"sharing[{position}].replicas: {sharing.replicas}; must be at least 2 and divide "
                f"resources.{sharing.resource} = {desired.resources[sharing.resource]}"
            )
    problems += [
        f"labels.{name}: has no value; list at least one"
        for name, accepted in desired.labels.items()
        if not accepted
    ]
    return tuple(problems)


def _check_gpus(desired: Desired) -> list[str]:
    problems: list[str] = []
    indexes = [entry.index for entry in desired.gpus]
    count = min(desired.gpu_count, _MOST_GPUS)
    if indexes != ["all"] and sorted(map(str, indexes)) != sorted(map(str, range(count))):
        problems.append(
            f'gpus: indexes {indexes}; write one entry "all", or each of 0 to '
            f"{desired.gpu_count - 1} once"
        )
    for position, entry in enumerate(desired.gpus):
        if entry.instances and not entry.mig:
            problems.append(
                f"gpus[{position}]: instances without MIG; set mig to true, or leave instances out"
            )
        for profile, count in entry.instances.items():
            if not _is_profile(profile):
                problems.append(
                    f"gpus[{position}].instances: {profile!r} is not a MIG profile; write it "
                    "like 3g.40gb or 1g.10gb+me"
                )
            if count < 1:
                problems.append(
                    f"gpus[{position}].instances.{profile}: {count}; must be at least 1, "
                    "or leave the profile out"
                )
    return problems


# The pools of a fleet have few names between them.
@lru_cache(maxsize=1024)
def _is_resource(name: str) -> bool:
    return _RESOURCE.fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _is_profile(name: str) -> bool:
    return _PROFILE.fullmatch(name) is not None


def _raw(desired: Desired) -> dict[str, Any]:
    by_index = sorted(desired.gpus, key=lambda entry: (isinstance(entry.index, str), entry.index))
    raw: dict[str, Any] = {
        "version": VERSION,
        "pool": desired.pool,
        "partitioner": desired.partitioner,
        "gpu_count": desired.gpu_count,
        "gpu_models": sorted(set(desired.gpu_models)),
        "gpus": [
            {"index": g.index, "mig": g.mig, "instances": dict(g.instances)} for g in by_index
        ],
        "resources": dict(desired.resources),
    }
    if desired.gpu_memory_mib is not None:
        raw["gpu_memory_mib"] = desired.gpu_memory_mib
    if desired.minimum_driver is not None:
        raw["minimum_driver"] = desired.minimum_driver
    if desired.sharing:
        by_resource = sorted(desired.sharing, key=lambda s: s.resource)
        raw["sharing"] = [
            {"resource": s.resource, "strategy": s.strategy, "replicas": s.replicas}
            for s in by_resource
        ]
    if desired.labels:
        raw["labels"] = {name: sorted(accepted) for name, accepted in desired.labels.items()}
    return raw


class _Reader:
    """Takes typed values out of parsed JSON and collects every misfit with its path."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def mapping(
        self, raw: Any, at: str, *, known: Sequence[str], optional: Sequence[str] = ()
    ) -> dict[str, Any]:
        if not isinstance(raw, dict):
            self.problems.append(f"{at or 'file'}: must be an object, is {_shown(raw)}")
            return {}
        prefix = f"{at}." if at else ""
        for key in raw:
            if key not in known and key not in optional:
                self.problems.append(
                    f"{prefix}{key}: unknown key; known are {', '.join((*known, *optional))}"
                )
        for key in known:
            if key not in raw:
                self.problems.append(f"{prefix}{key}: missing")
        return raw

    def text(self, raw: Any, at: str) -> str:
        if isinstance(raw, str):
            return raw
        self.problems.append(f"{at}: must be a string, is {_shown(raw)}")
        return ""

    def integer(self, raw: Any, at: str) -> int:
        # bool is a subclass of int.
        if isinstance(raw, int) and not isinstance(raw, bool):
            return raw
        self.problems.append(f"{at}: must be a whole number, is {_shown(raw)}")
        return 0

    def truth(self, raw: Any, at: str) -> bool:
        if isinstance(raw, bool):
            return raw
        self.problems.append(f"{at}: must be true or false, is {_shown(raw)}")
        return False

    def items(self, raw: Any, at: str) -> list[Any]:
        if isinstance(raw, list):
            return raw
        self.problems.append(f"{at}: must be a list, is {_shown(raw)}")
        return []

    def counts(self, raw: Any, at: str) -> dict[str, int]:
        if not isinstance(raw, dict):
            self.problems.append(f"{at}: must be an object of whole numbers, is {_shown(raw)}")
            return {}
        return {str(key): self.integer(value, f"{at}.{key}") for key, value in raw.items()}

    def texts(self, raw: Any, at: str) -> dict[str, tuple[str, ...]]:
        if not isinstance(raw, dict):
            self.problems.append(f"{at}: must be an object of lists, is {_shown(raw)}")
            return {}
        return {
            str(key): tuple(
                self.text(one, f"{at}.{key}[{i}]")
                for i, one in enumerate(self.items(listed, f"{at}.{key}"))
            )
            for key, listed in raw.items()
        }

    def choice(self, raw: Any, at: str, allowed: tuple[str, ...]) -> Any:
        if raw not in allowed:
            self.problems.append(f"{at}: must be one of {', '.join(allowed)}, is {_shown(raw)}")
        return raw


_REQUIRED = ("version", "pool", "partitioner", "gpu_count", "gpu_models", "gpus", "resources")
_OPTIONAL = ("gpu_memory_mib", "minimum_driver", "sharing", "labels")


def _read(reader: _Reader, raw: Any) -> Desired | None:
    if isinstance(raw, dict) and raw.get("version", VERSION) != VERSION:
        # The keys of another version are unknown: one problem, not twenty.
        reader.problems.append(f"version: must be {VERSION}, is {_shown(raw['version'])}")
        return None
    top = reader.mapping(raw, "", known=_REQUIRED, optional=_OPTIONAL)
    if reader.problems:
        return None
    gpus = []
    for position, item in enumerate(reader.items(top["gpus"], "gpus")):
        at = f"gpus[{position}]"
        entry = reader.mapping(item, at, known=("index", "mig"), optional=("instances",))
        index = entry.get("index", 0)
        gpus.append(
            DesiredGpu(
                index="all" if index == "all" else reader.integer(index, f"{at}.index"),
                mig=reader.truth(entry.get("mig", False), f"{at}.mig"),
                instances=reader.counts(entry.get("instances", {}), f"{at}.instances"),
            )
        )
    sharing = []
    for position, item in enumerate(reader.items(top.get("sharing", []), "sharing")):
        at = f"sharing[{position}]"
        entry = reader.mapping(item, at, known=("resource", "strategy", "replicas"))
        if len(entry) == 3:
            sharing.append(
                DesiredSharing(
                    resource=reader.text(entry.get("resource"), f"{at}.resource"),
                    strategy=reader.choice(
                        entry.get("strategy"), f"{at}.strategy", get_args(SharingStrategy)
                    ),
                    replicas=reader.integer(entry.get("replicas"), f"{at}.replicas"),
                )
            )
    models = reader.items(top["gpu_models"], "gpu_models")
    memory, driver = top.get("gpu_memory_mib"), top.get("minimum_driver")
    return Desired(
        pool=reader.text(top["pool"], "pool"),
        partitioner=reader.choice(top["partitioner"], "partitioner", get_args(Partitioner)),
        gpu_count=reader.integer(top["gpu_count"], "gpu_count"),
        gpu_models=tuple(reader.text(name, f"gpu_models[{i}]") for i, name in enumerate(models)),
        gpus=tuple(gpus),
        resources=reader.counts(top["resources"], "resources"),
        gpu_memory_mib=None if memory is None else reader.integer(memory, "gpu_memory_mib"),
        minimum_driver=None if driver is None else reader.text(driver, "minimum_driver"),
        sharing=tuple(sharing),
        labels=reader.texts(top.get("labels", {}), "labels"),
    )


def _listed(source: str, problems: Sequence[str]) -> str:
    lines = [f"  {_plain(problem)}" for problem in problems[:_MOST_PROBLEMS]]
    if (more := len(problems) - _MOST_PROBLEMS) > 0:
        lines.append(f"  and {more} more")
    count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
    return "\n".join([f"{source}: {count}", *lines])


def _plain(text: str) -> str:
    """Shortens the text and escapes characters that a terminal would obey.

    This module imports nothing of the project, so it cannot use `telemetry.plain`.
    """
    cut = text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}…"
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def _shown(raw: Any) -> str:
    text = json.dumps(raw)
    return text if len(text) <= 40 else f"{text[:37]}..."
