"""Rules about the files of NVIDIA's GPU operator: MIG layouts, and sharing by the device plugin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from infra import catalog
from infra.geometry import LayoutError, Misfit, check, gpu_instances
from policy.rules import pools
from policy.rules.declared import Resource, at, items, whole
from policy.rules.rule import ResourceRule, Settings, StackRule, number

_CATALOG = catalog.load()
_STRATEGIES = ("timeSlicing", "mps")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
"""Source: Kubernetes documentation, Labels and Selectors."""


class _Twice(yaml.YAMLError):
    """A mapping has the same key twice, of which YAML's reader would keep the last."""


# PyYAML is built without libyaml where there is no wheel of it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc] # a class that may not be there
    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                line = node.start_mark.line + 1
                raise _Twice(f"{key} appears twice in the mapping that starts on line {line}")
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
            layouts = at(_parsed(text), "mig-configs")
        except yaml.YAMLError as e:
            yield f"{where}: mig-manager cannot read it: {' '.join(str(e).split())}"
            continue
        if not isinstance(layouts, Mapping):
            yield f"{where}: mig-configs holds no layouts by name"
            continue
        for name, entries in layouts.items():
            if not _LABEL_VALUE.fullmatch(str(name)):
                yield f"{where}: {name!r} is not a valid value of the label nvidia.com/mig.config"
            for entry in items(entries):
                yield from (f"{where}, {name}: {reason}" for reason in _misfits(entry))


def _misfits(entry: Any) -> Iterator[str]:
    """Why the layout of an entry does not fit on the GPUs that it is for; of unknown ones, none."""
    layout = at(entry, "mig-devices") or {}
    if not isinstance(layout, Mapping) or not all(
        isinstance(count, int) and count >= 0 for count in layout.values()
    ):
        yield "mig-devices is not a mapping of profiles to counts"
        return
    if not layout:
        return
    asked = at(entry, "device-filter")
    ids = {str(one).upper() for one in ([asked] if isinstance(asked, str) else items(asked))}
    able = [gpu for gpu in _CATALOG.gpus.values() if gpu.profiles]
    meant = [gpu for gpu in able if ids & {one.upper() for one in gpu.pci_ids}]
    reasons = [(gpu, _why_not(gpu, layout)) for gpu in (meant or able)]
    if ids and meant:
        yield from (f"on {gpu.name}, {reason}" for gpu, reason in reasons if reason)
    elif not ids and all(reason for _, reason in reasons):
        # Without a filter it is for every GPU there is, so that it must fit on one.
        shown = ", ".join(f"{count} x {profile}" for profile, count in layout.items())
        yield f"{shown} fits on no GPU that the catalog knows"


def _why_not(gpu: catalog.Gpu, layout: Mapping[str, int]) -> str:
    try:
        found = check(gpu, gpu_instances(gpu, layout))
    except LayoutError as e:
        return str(e)
    return found.reason if isinstance(found, Misfit) else ""


def _one_way(resource: Resource, settings: Settings) -> Iterator[str]:
    by_config: dict[str, dict[str, list[str]]] = {}
    for one in _shared(resource):
        by_config.setdefault(one.config, {}).setdefault(one.strategy, []).append(one.resource)
    for config, strategies in by_config.items():
        where = f"{resource.name!r}, {config}"
        if len(strategies) > 1:
            yield (
                f"{where} shares by {' and by '.join(sorted(strategies))}, of which the device "
                "plugin does only one"
            )
        partitions = [one for one in strategies.get("mps", ()) if "/mig-" in one]
        if partitions:
            yield (
                f"{where} shares {', '.join(partitions)} by MPS, which the device plugin does "
                "with whole GPUs only; share partitions by time-slicing"
            )


def _replicas(resource: Resource, settings: Settings) -> Iterator[str]:
    limit = int(settings["most_replicas"])
    for one in _shared(resource):
        if one.replicas > limit:
            yield (
                f"{resource.name!r}, {one.config} offers each {one.resource} {one.replicas} times, "
                f"and most_replicas is {limit}"
            )


def _resource_name(resources: Sequence[Resource], settings: Settings) -> Iterator[tuple[str, str]]:
    found = {pool.name: pool for pool in map(pools.read, resources) if pool is not None}
    for resource in resources:
        for one in _shared(resource):
            pool = found.get(one.config)
            # The autoscaler counts nvidia.com/gpu only: under another name it would add no node.
            if (
                one.renamed
                or one.replicas < 2
                or (pool is not None and pool.autoscaled is not False)
            ):
                continue
            yield (
                resource.urn,
                f"{resource.name!r}, {one.config} offers a share of {one.resource} under the name "
                "of a whole one; set renameByDefault, so that no pod shares unasked",
            )


def _shared(resource: Resource) -> Iterator[Shared]:
    """What the device plugin's configs share. Other texts, and what cannot be read, hold nothing:
    a ConfigMap may hold anything.
    """
    for key, text in _texts(resource):
        if not any(strategy in text for strategy in _STRATEGIES):
            continue
        try:
            sharing = at(_parsed(text), "sharing")
        except yaml.YAMLError:
            continue
        for strategy in _STRATEGIES:
            asked = at(sharing, strategy)
            for one in items(at(asked, "resources")):
                yield Shared(
                    config=key,
                    strategy=strategy,
                    resource=str(at(one, "name")),
                    replicas=whole(at(one, "replicas")) or 1,
                    renamed=at(asked, "renameByDefault") is True or bool(at(one, "rename")),
                )


def _texts(resource: Resource) -> Iterator[tuple[str, str]]:
    data = at(resource.props, "data")
    if resource.type == "kubernetes:core/v1:ConfigMap" and isinstance(data, Mapping):
        yield from ((key, text) for key, text in data.items() if isinstance(text, str))


@lru_cache(maxsize=32)  # four rules read the same files
def _parsed(text: str) -> Any:
    """Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - derived from a safe loader


RULES: tuple[ResourceRule | StackRule, ...] = (
    ResourceRule(
        name="layouts-fit",
        description="mig-manager's layouts can be read, have a name each, and fit on their GPUs.",
        level="mandatory",
        check=_layouts_fit,
    ),
    ResourceRule(
        name="sharing-one-way",
        description="GPUs are shared by time-slicing or by MPS, and partitions by time-slicing.",
        level="mandatory",
        check=_one_way,
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
