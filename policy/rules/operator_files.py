"""Rules about the files of NVIDIA's GPU operator: MIG layouts, and sharing by the device plugin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from policy.rules import pools
from policy.rules.resources import Resource, items, property_at, whole
from policy.rules.rule import ResourceRule, Settings, StackRule, number
from slicewright.infra import catalog
from slicewright.infra.geometry import LayoutError, Misfit, check, gpu_instances

_CATALOG = catalog.load()
_STRATEGIES = ("timeSlicing", "mps")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
"""Source: Kubernetes documentation, Labels and Selectors."""


class _DuplicateKey(yaml.YAMLError):
    """A mapping has the same key twice. YAML's reader would use the last value."""


# PyYAML lacks libyaml on platforms without a wheel.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc] # a class that may be missing
    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                line = node.start_mark.line + 1
                raise _DuplicateKey(
                    f"{key} appears twice in the mapping that starts on line {line}"
                )
        return super().construct_mapping(node, deep)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A resource that the device plugin offers several times."""

    config: str
    """The key of the ConfigMap, which slicewright names after the pool."""
    strategy: str
    resource: str
    replicas: int
    renamed: bool


def _layouts_fit(resource: Resource, settings: Settings) -> Iterator[str]:
    for key, text in _texts(resource):
        if "mig-configs" not in text:
            continue
        where = f"{resource.name!r}, {key}"
        try:
            layouts = property_at(_parse(text), "mig-configs")
        except yaml.YAMLError as e:
            yield f"{where}: mig-manager cannot read it: {' '.join(str(e).split())}"
            continue
        if not isinstance(layouts, Mapping):
            yield f"{where}: mig-configs is not a mapping of names to layouts"
            continue
        for name, entries in layouts.items():
            if not _LABEL_VALUE.fullmatch(str(name)):
                yield f"{where}: {name!r} is not a valid value of the label nvidia.com/mig.config"
            for entry in items(entries):
                yield from (f"{where}, {name}: {reason}" for reason in _misfits(entry))


def _misfits(entry: Any) -> Iterator[str]:
    """The reasons why an entry's layout does not fit on its GPUs, none for unknown GPUs."""
    layout = property_at(entry, "mig-devices") or {}
    if not isinstance(layout, Mapping) or not all(
        isinstance(count, int) and count >= 0 for count in layout.values()
    ):
        yield "mig-devices is not a mapping of profiles to counts"
        return
    if not layout:
        return
    device_filter = property_at(entry, "device-filter")
    ids = {
        str(pci_id).upper()
        for pci_id in ([device_filter] if isinstance(device_filter, str) else items(device_filter))
    }
    able = [gpu for gpu in _CATALOG.gpus.values() if gpu.profiles]
    matching = [gpu for gpu in able if ids & {pci_id.upper() for pci_id in gpu.pci_ids}]
    reasons = [(gpu, _why_not(gpu, layout)) for gpu in (matching or able)]
    if ids and matching:
        yield from (f"on {gpu.name}, {reason}" for gpu, reason in reasons if reason)
    elif not ids and all(reason for _, reason in reasons):
        # Without a filter it applies to every GPU, so it must fit on at least one.
        listed = ", ".join(f"{count} x {profile}" for profile, count in layout.items())
        yield f"{listed} fits on no GPU in the catalog"


def _why_not(gpu: catalog.Gpu, layout: Mapping[str, int]) -> str:
    try:
        result = check(gpu, gpu_instances(gpu, layout))
    except LayoutError as e:
        return str(e)
    return result.reason if isinstance(result, Misfit) else ""


def _single_strategy(resource: Resource, settings: Settings) -> Iterator[str]:
    by_config: dict[str, dict[str, list[str]]] = {}
    for shared in _shared_resources(resource):
        by_config.setdefault(shared.config, {}).setdefault(shared.strategy, []).append(
            shared.resource
        )
    for config, strategies in by_config.items():
        where = f"{resource.name!r}, {config}"
        if len(strategies) > 1:
            yield (
                f"{where} shares by {' and by '.join(sorted(strategies))}, but the device plugin "
                "supports only one at a time"
            )
        partitions = [shared for shared in strategies.get("mps", ()) if "/mig-" in shared]
        if partitions:
            yield (
                f"{where} shares {', '.join(partitions)} by MPS, which the device plugin "
                "supports for whole GPUs only; share partitions by time-slicing"
            )


def _replicas(resource: Resource, settings: Settings) -> Iterator[str]:
    limit = int(settings["most_replicas"])
    for shared in _shared_resources(resource):
        if shared.replicas > limit:
            yield (
                f"{resource.name!r}, {shared.config} offers each {shared.resource} "
                f"{shared.replicas} times, and most_replicas is {limit}"
            )


def _resource_name(resources: Sequence[Resource], settings: Settings) -> Iterator[tuple[str, str]]:
    pools_by_name = {pool.name: pool for pool in map(pools.read, resources) if pool is not None}
    for resource in resources:
        for shared in _shared_resources(resource):
            pool = pools_by_name.get(shared.config)
            # The autoscaler counts nvidia.com/gpu only: for another name it would add no node.
            if (
                shared.renamed
                or shared.replicas < 2
                or (pool is not None and pool.autoscaled is not False)
            ):
                continue
            yield (
                resource.urn,
                f"{resource.name!r}, {shared.config} offers a share of {shared.resource} "
                "under the name of a whole device; set renameByDefault, so that pods share only on "
                "request",
            )


def _shared_resources(resource: Resource) -> Iterator[Shared]:
    """The shared resources in the device plugin's configs. Other and unreadable texts have none, as
    a ConfigMap may contain anything.
    """
    for key, text in _texts(resource):
        if not any(strategy in text for strategy in _STRATEGIES):
            continue
        try:
            sharing = property_at(_parse(text), "sharing")
        except yaml.YAMLError:
            continue
        for strategy in _STRATEGIES:
            strategy_config = property_at(sharing, strategy)
            for entry in items(property_at(strategy_config, "resources")):
                yield Shared(
                    config=key,
                    strategy=strategy,
                    resource=str(property_at(entry, "name")),
                    replicas=whole(property_at(entry, "replicas")) or 1,
                    renamed=property_at(strategy_config, "renameByDefault") is True
                    or bool(property_at(entry, "rename")),
                )


def _texts(resource: Resource) -> Iterator[tuple[str, str]]:
    data = property_at(resource.props, "data")
    if resource.type == "kubernetes:core/v1:ConfigMap" and isinstance(data, Mapping):
        yield from ((key, text) for key, text in data.items() if isinstance(text, str))


@lru_cache(maxsize=32)  # four rules read the same files
def _parse(text: str) -> Any:
    """The content of a YAML text. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - derived from a safe loader


RULES: tuple[ResourceRule | StackRule, ...] = (
    ResourceRule(
        name="layouts-fit",
        description="mig-manager's layouts are readable, have unique names, and fit on their GPUs.",
        level="mandatory",
        check=_layouts_fit,
    ),
    ResourceRule(
        name="sharing-one-way",
        description="GPUs are shared by time-slicing or by MPS, and partitions by time-slicing.",
        level="mandatory",
        check=_single_strategy,
    ),
    ResourceRule(
        name="sharing-replicas",
        description="Not too many pods share a GPU or a partition.",
        level="mandatory",
        settings=(number("most_replicas", "pods on one GPU or partition", 16),),
        check=_replicas,
    ),
    StackRule(
        name="sharing-resource-name",
        description="Replicas of a shared GPU have another resource name than whole GPUs, except "
        "where an autoscaler looks for nodes.",
        level="advisory",
        check=_resource_name,
    ),
)
