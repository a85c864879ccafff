"""What a pool's nodes are: machine, count, labels and taints, checked against the catalog and each cloud's rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fleet_controller.api import MIG_CONFIG_LABEL, POOL_LABEL, STARTUP_TAINT, STARTUP_TAINT_KEY
from infra import catalog, spec
from infra.catalog import Cloud, Gpu, Machine
from infra.plan.findings import Findings, listed, nearest
from infra.plan.fleet import CLOUD_EFFECT, Effect, NodeCount, Taint
from infra.spec import Path

AnyPool = spec.GkePool | spec.EksPool | spec.ByoPool
AnyCloud = Literal["gke", "eks", "byo"]
PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""Which of the device plugin's configs a node gets. Source: NVIDIA/k8s-device-plugin, config-manager."""
NO_GKE_PLUGIN_LABEL = "gke-no-default-nvidia-gpu-device-plugin"
"""Keeps GKE's own device plugin off a node. Source: Google's installer, docs of the GPU operator on GKE."""
_OWN = "slicewright.io/"
_GPU_TAINT: Mapping[str, str] = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
"""What GKE puts on every GPU node and EKS does not: it keeps pods that need no GPU away. The same on both clouds here."""


@dataclass(frozen=True, kw_only=True)
class Gpus:
    """The GPUs of one node."""

    gpu: Gpu
    count: int


@dataclass(frozen=True, kw_only=True)
class GpuMachine(Gpus):
    """A machine type with the GPUs that its nodes have."""

    machine: Machine
    accelerator: str
    """GKE's accelerator type; empty on EKS."""


def machine_of(name: str, asked: spec.GpuChoice | None, cloud: Cloud, path: Path, findings: Findings) -> GpuMachine | None:
    """The GPU machine that a pool names, with GPUs of its own or as asked for."""
    machine = _machine(name, cloud, (*path, "machine_type"), findings)
    if machine is None:
        return None
    if machine.gpu is not None:
        if asked is not None:
            findings.refuse(
                (*path, "gpu"),
                f"{name} has its GPUs fixed: {machine.gpu_count} x {machine.gpu.name}",
                "leave it out",
                machine.source,
            )
            return None
        return GpuMachine(machine=machine, gpu=machine.gpu, count=machine.gpu_count, accelerator=machine.accelerator or "")
    if not machine.attachable:
        with_gpus = ", ".join(m.name for (c, _), m in catalog.load().machines.items() if c == cloud and m.gpu)
        findings.refuse((*path, "machine_type"), f"{name} has no GPU", f"with GPUs: {with_gpus}", machine.source)
        return None
    choices = {a.gpu.name: a for a in machine.attachable}
    if asked is None:
        models = ", ".join(choices)
        findings.refuse(
            (*path, "gpu"), f"is missing: {name} has no GPU of its own", f"write gpu: {{model: …, count: …}} with one of {models}"
        )
        return None
    if asked.model not in choices:
        findings.refuse(
            (*path, "gpu", "model"),
            f"{asked.model} cannot be attached to {name}",
            nearest(asked.model, tuple(choices)),
            machine.source,
        )
        return None
    choice = choices[asked.model]
    if asked.count not in choice.counts:
        findings.refuse(
            (*path, "gpu", "count"),
            f"{asked.count} x {asked.model}: not on {name}",
            f"write one of {listed(choice.counts)}",
            machine.source,
        )
        return None
    return GpuMachine(machine=machine, gpu=choice.gpu, count=asked.count, accelerator=choice.accelerator)


def system_machine(name: str, cloud: Cloud, findings: Findings) -> Machine | None:
    """The system pool's machine type, which has no GPU."""
    machine = _machine(name, cloud, ("system_pool", "machine_type"), findings)
    if machine is not None and machine.gpu is not None:
        findings.refuse(
            ("system_pool", "machine_type"), f"{name} has GPUs, which the system pool would leave idle", "choose a CPU machine"
        )
        return None
    return machine


def count_of(nodes: spec.Fixed | spec.Autoscaled, path: Path, findings: Findings) -> NodeCount:
    match nodes:
        case spec.Fixed(count=count):
            return NodeCount(min=count, max=count, autoscaled=False)
        case spec.Autoscaled(min=fewest, max=largest):
            if fewest > largest:
                findings.refuse(path, f"min {fewest} is above max {largest}")
            return NodeCount(min=fewest, max=largest, autoscaled=True)


def pool_labels(pool: AnyPool, path: Path, cloud: AnyCloud, findings: Findings) -> Mapping[str, str]:
    """The pool's own label and those of the stack file. Never the MIG config: on a pool it races the device plugin."""
    for key, value in pool.labels.items():
        at = (*path, "labels", key)
        if key == MIG_CONFIG_LABEL:
            findings.refuse(
                at,
                "on a pool it races the device plugin and changes all nodes at once; the fleet controller sets it",
                "use partition",
                "NVIDIA/gpu-operator #2670",
                in_key=True,
            )
        elif key == PLUGIN_CONFIG_LABEL:
            findings.refuse(at, "slicewright sets it where a pool shares its GPUs", "use sharing", in_key=True)
        elif key == NO_GKE_PLUGIN_LABEL and cloud == "gke":
            findings.refuse(
                at,
                "it takes away GKE's device plugin, and with it the end of the driver's installation",
                "use partition: {mode: operator}, which sets it and the rest",
                "NVIDIA/aicr docs/integrator/gke-gpu-setup.md",
                in_key=True,
            )
        elif key.startswith(_OWN):
            findings.refuse(at, f"labels {_OWN}… are slicewright's own", "choose another key", in_key=True)
        elif cloud == "eks":
            _check_eks_label(key, value, at, findings)
    return {**dict(sorted(pool.labels.items())), POOL_LABEL: pool.name}


def _check_eks_label(key: str, value: str, at: Path, findings: Findings) -> None:
    prefix = key.rpartition("/")[0]
    if prefix in ("kubernetes.io", "k8s.io") or prefix.endswith((".kubernetes.io", ".k8s.io")):
        findings.refuse(
            at, "EKS refuses labels with a kubernetes.io or k8s.io prefix", "choose another key", "EKS API", in_key=True
        )
    if len(key) > 63:
        findings.refuse(
            at, f"EKS allows 63 characters for a label's key with its prefix, this has {len(key)}", "", "EKS API", in_key=True
        )
    if not value:
        findings.refuse(at, "EKS refuses labels without a value", 'for example "true"', "EKS API")


def pool_taints(pool: AnyPool, path: Path, cloud: AnyCloud, findings: Findings) -> tuple[Taint, ...]:
    """The stack file's taints and the startup taint, which keeps every pod away until the node has proven its layout."""
    seen: dict[tuple[str, str], int] = {}
    taints = []
    for i, written in enumerate(pool.taints):
        at = (*path, "taints", i)
        effect = _effect(written.effect)
        if (written.key, effect) in seen:
            findings.refuse(
                at,
                f"{written.key} with {effect} is there twice, which the cloud refuses",
                f"see taints[{seen[written.key, effect]}]",
            )
        seen.setdefault((written.key, effect), i)
        if written.key == STARTUP_TAINT_KEY or written.key.startswith(_OWN):
            findings.refuse((*at, "key"), "is slicewright's own taint, on every GPU node until it is verified", "leave it out")
        elif written.key == _GPU_TAINT["key"]:
            why = {
                "gke": "GKE itself puts it there, and refuses a second one",
                "eks": "slicewright puts it there, as GKE does",
                "byo": "existing nodes keep their taints",
            }[cloud]
            findings.refuse(
                (*at, "key"),
                f"{_GPU_TAINT['key']}={_GPU_TAINT['value']}:{_GPU_TAINT['effect']} is on every GPU node already: {why}",
                "leave it out",
                "hashicorp/terraform-provider-google #7928" if cloud == "gke" else "",
            )
        elif cloud == "eks" and len(written.key) > 63:
            findings.refuse(
                (*at, "key"), f"EKS allows 63 characters for a taint's key, this has {len(written.key)}", "", "EKS API"
            )
        taints.append(Taint(key=written.key, value=written.value, effect=effect))
    own = [_GPU_TAINT, STARTUP_TAINT] if cloud == "eks" else [STARTUP_TAINT]
    return (*sorted(taints, key=lambda t: (t.key, t.effect)), *(_own_taint(taint) for taint in own))


def _own_taint(taint: Mapping[str, str]) -> Taint:
    return Taint(key=taint["key"], value=taint["value"], effect=_effect(taint["effect"]))


def _effect(written: str) -> Effect:
    return next(effect for effect, cloud in CLOUD_EFFECT.items() if written in (effect, cloud))


def _machine(name: str, cloud: Cloud, path: Path, findings: Findings) -> Machine | None:
    known = catalog.load()
    machine = known.machines.get((cloud, name))
    if machine is None:
        elsewhere = next((c for c, n in known.machines if n == name), None)
        reason = (
            f"{name} is a machine type of {elsewhere}, the fleet is on {cloud}" if elsewhere else f"{name} is not in the catalog"
        )
        findings.refuse(path, reason, nearest(name, known.machine_names(cloud)))
    return machine
