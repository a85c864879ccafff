"""How a pool's GPUs are cut, what its nodes then advertise, and what the agent must find there."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from infra import catalog, geometry, spec
from infra.catalog import Gpu
from infra.catalog.named import config_name
from infra.geometry import Fit, Misfit, naming
from infra.plan.drivers import minimum_driver
from infra.plan.findings import Findings, listed, nearest
from infra.plan.fleet import Layout, Share
from infra.plan.machines import GpuMachine, Gpus
from infra.plan.sharing import shared
from infra.spec import Path
from node_agent.desired import Desired, DesiredGpu, DesiredSharing, Partitioner, digest, dump

WHOLE = "nvidia.com/gpu"
Strategy = Literal["none", "single", "mixed"]
_MIG_LABEL_LONGEST = 63


@dataclass(frozen=True, kw_only=True)
class Cut:
    """One pool's partitions, per node, before anybody shares them."""

    layouts: tuple[Layout, ...]
    devices: Mapping[str, int]
    partitioner: Partitioner
    mig_config: str | None

    @property
    def partitioned(self) -> bool:
        return any(self.layouts)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a node offers, and the agent's desired state."""

    resources: Mapping[str, int]
    desired: str
    layout_hash: str


def whole(found: Gpus) -> Cut:
    """Nobody cuts anything."""
    return Cut(
        layouts=({},) * found.count,
        devices={WHOLE: found.count},
        partitioner="none",
        mig_config=None,
    )


def native_cut(asked: spec.Native, path: Path, found: GpuMachine, findings: Findings) -> Cut | None:
    """GKE cuts every GPU of a node into as many of one profile as fit, and advertises all as
    nvidia.com/gpu.
    """
    profile, at = asked.profile, (*path, "profile")
    if not _can_be_cut(found.gpu, path, findings) or not _fits(
        found.gpu, {profile: 1}, at, findings
    ):
        return None
    accelerator = catalog.load().accelerators[found.accelerator]
    sizes = accelerator.sizes
    if profile not in sizes:
        findings.refuse(
            at,
            f"GKE does not cut {found.accelerator} into {profile}: {accelerator.refused[profile]}",
            f"nearest {naming.nearest_of(sizes, profile)}; GKE's sizes: {listed(sizes)}",
            accelerator.source,
        )
        return None
    per_gpu = geometry.max_instances(found.gpu, profile)
    return Cut(
        layouts=({profile: per_gpu},) * found.count,
        devices={WHOLE: per_gpu * found.count},
        partitioner="gke",
        mig_config=None,
    )


def check_ways(asked: spec.Operator, path: Path, findings: Findings) -> None:
    """It says a layout, and in one way."""
    said = _ways(asked)
    if len(said) != 1:
        has = (
            f"has {' and '.join(said)}, and only one can be cut"
            if said
            else "has none of layout, config and gpus"
        )
        findings.refuse(
            path, has, "write one of them, for example config: all-balanced", "mig-parted"
        )


def operator_cut(
    asked: spec.Operator, pool: str, path: Path, found: Gpus, strategy: Strategy, findings: Findings
) -> Cut | None:
    """mig-manager cuts; the device plugin advertises by the cluster's strategy. Of a layout said in
    two ways, both are judged.
    """
    if not _can_be_cut(found.gpu, path, findings):
        return None
    said = [_asked_layouts(way, asked, found, path, findings) for way in _ways(asked)]
    if strategy == "none":
        findings.refuse(
            path,
            "with gpu_operator.mig_strategy: none partitions are never advertised",
            "write mig_strategy: mixed or single",
            "NVIDIA/k8s-device-plugin internal/rm",
        )
        return None
    layouts = said[0] if len(said) == 1 else None
    if layouts is None or not _strategy_allows(layouts, strategy, path, findings):
        return None
    devices: Counter[str] = Counter()
    for layout in layouts:
        if not layout:
            devices[WHOLE] += 1
        for profile, count in layout.items():
            devices[WHOLE if strategy == "single" else resource_of(profile)] += count
    return Cut(
        layouts=layouts,
        devices=dict(devices),
        partitioner="mig-manager",
        mig_config=mig_config_name(pool, found.gpu, layouts),
    )


def outcome(
    pool: str,
    found: Gpus,
    cut: Cut,
    shares: tuple[Share, ...],
    *,
    resources: Mapping[str, int] | None = None,
) -> Outcome:
    """resources: where something else than a device plugin advertises them."""
    offered = shared(cut.devices, shares) if resources is None else resources
    uniform = all(layout == cut.layouts[0] for layout in cut.layouts)
    gpus = (
        (DesiredGpu(index="all", mig=bool(cut.layouts[0]), instances=cut.layouts[0]),)
        if uniform
        else tuple(
            DesiredGpu(index=i, mig=bool(layout), instances=layout)
            for i, layout in enumerate(cut.layouts)
        )
    )
    desired = Desired(
        pool=pool,
        partitioner=cut.partitioner,
        gpu_count=found.count,
        gpu_models=found.gpu.products,
        gpus=gpus,
        resources=offered,
        gpu_memory_mib=found.gpu.memory_mib,
        minimum_driver=minimum_driver(found.gpu, cut.layouts),
        sharing=tuple(
            DesiredSharing(resource=s.advertised, strategy=s.strategy, replicas=s.replicas)
            for s in shares
        ),
    )
    text = dump(desired)
    return Outcome(resources=offered, desired=text, layout_hash=digest(text))


def resource_of(profile: str) -> str:
    """What the device plugin calls a profile under strategy mixed. Source:
    NVIDIA/k8s-device-plugin, internal/rm.
    """
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def mig_config_name(pool: str, gpu: Gpu, layouts: tuple[Layout, ...]) -> str:
    """A name that changes with the layout: mig-manager acts only when the label's value changes."""
    uniform = all(layout == layouts[0] for layout in layouts)
    told = dict(layouts[0]) if uniform else [dict(layout) for layout in layouts]
    content = json.dumps({"gpu": list(gpu.pci_ids), "layout": told}, sort_keys=True)
    name = f"{pool}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
    assert len(name) <= _MIG_LABEL_LONGEST, f"pool names leave room for the hash: {name}"
    return name


def _can_be_cut(gpu: Gpu, path: Path, findings: Findings) -> bool:
    if gpu.family is None:
        findings.refuse(
            path,
            f"{gpu.name} has no MIG: it cannot be partitioned",
            "write partition: none",
            gpu.source,
        )
    return gpu.family is not None


def _ways(asked: spec.Operator) -> list[str]:
    return [name for name in ("layout", "config", "gpus") if getattr(asked, name) is not None]


def _asked_layouts(
    way: str, asked: spec.Operator, found: Gpus, path: Path, findings: Findings
) -> tuple[Layout, ...] | None:
    at = (*path, way)
    match getattr(asked, way):
        case tuple() as groups:
            return _by_index(groups, found, at, findings)
        case str() as config:
            layout = _named_layout(config, found.gpu, at, findings)
        case said:
            layout = dict(sorted(said.items()))
    if layout is None or not _fits(found.gpu, layout, at, findings):
        return None
    return (layout,) * found.count


def _named_layout(config: str, gpu: Gpu, path: Path, findings: Findings) -> Layout | None:
    named = catalog.load().named_configs[gpu.name]
    if config in named and named[config].layout:
        # Only its layout: the config that we write names every board of the model, which the
        # operator's own may not (`without`).
        return dict(sorted(named[config].layout.items()))
    if config in named:
        findings.refuse(
            path,
            f"{config} cuts nothing",
            "write partition: none",
            "default-mig-parted-config of the GPU operator",
        )
        return None
    near = _config_alike(config, gpu)
    findings.refuse(
        path,
        f"{config} is no layout of {gpu.name}",
        f"did you mean {near}?" if near in named else nearest(config, tuple(named)),
        "default-mig-parted-config of the GPU operator",
    )
    return None


def _config_alike(config: str, gpu: Gpu) -> str:
    """The same slices on this GPU: `all-1g.5gb` is an A100's, an H100 has all-1g.10gb. Empty where
    it names no profile.
    """
    match = re.fullmatch(r"all-(\d+g\.\d+gb)(?:\.(.+)|(-.+))?", config)
    if match is None:
        return ""
    own = naming.own_name(gpu, match[1] + (f"+{match[2]}" if match[2] else match[3] or ""))
    return config_name(own) if own else ""


def _by_index(
    groups: tuple[spec.GpuGroup, ...], found: Gpus, path: Path, findings: Findings
) -> tuple[Layout, ...] | None:
    layouts: dict[int, Layout] = {}
    before, known = len(findings.problems), True
    for i, group in enumerate(groups):
        for j, index in enumerate(group.index):
            at = (*path, i, "index", j)
            if not findings.knows(at):
                known = False
                continue
            if index >= found.count and findings.knows((*path[:2], "gpu", "count")):
                findings.refuse(
                    at,
                    f"there is no GPU {index}: the node has {found.count}, counted from 0",
                    f"write 0 to {found.count - 1}",
                    "NVML",
                )
            elif index in layouts:
                findings.refuse(at, f"GPU {index} is there twice", "name each GPU once")
            layouts[index] = dict(sorted(group.layout.items()))
        _fits(found.gpu, group.layout, (*path, i, "layout"), findings)
    missing = [index for index in range(found.count) if index not in layouts]
    if missing and known:
        findings.refuse(
            path,
            f"does not say what becomes of GPU {listed(missing)}; mig-manager never finds "
            "such a layout applied",
            f"add {{index: [{listed(missing)}], layout: {{}}}} to leave them whole",
            "NVIDIA/mig-parted #157",
        )
    if missing or len(findings.problems) > before:
        return None
    ordered = tuple(layouts[index] for index in range(found.count))
    if not any(ordered):
        findings.refuse(path, "leaves every GPU whole", "write partition: none")
        return None
    return ordered


def _strategy_allows(
    layouts: tuple[Layout, ...], strategy: Strategy, path: Path, findings: Findings
) -> bool:
    if strategy == "mixed":
        return True
    if any(len(layout) > 1 for layout in layouts):
        why = "has more than one profile"
    elif not all(layouts):
        why = "leaves some GPUs whole"
    elif any(set(layout) != set(layouts[0]) for layout in layouts):
        why = "gives GPUs different profiles"
    else:
        return True
    findings.refuse(
        path,
        f"{why}, and with gpu_operator.mig_strategy: single the device plugin refuses such a node",
        "write one profile for all GPUs, or mig_strategy: mixed",
        "NVIDIA/k8s-device-plugin internal/rm",
    )
    return False


def _fits(gpu: Gpu, layout: Layout, path: Path, findings: Findings) -> bool:
    match geometry.check(gpu, layout):
        case Fit():
            return True
        case Misfit(reason=reason, nearest=near):
            written = ", ".join(f"{name}: {count}" for name, count in sorted(near.items()))
            one = next(iter(near)) if len(near) == 1 and path[-1] == "profile" else ""
            findings.refuse(
                path,
                f"does not fit on one {gpu.name}: {reason}",
                f"nearest: {one}"
                if one
                else f"nearest that fits: {{{written}}}"
                if written
                else f"profiles of {gpu.name}: {listed(tuple(gpu.profiles))}",
                gpu.family.source if gpu.family else gpu.source,
                # Fewer instances never fit worse.
                anyway=True,
            )
            return False
