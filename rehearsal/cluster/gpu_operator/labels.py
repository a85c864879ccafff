"""The labels that the operator gives a node, by those of Node Feature Discovery. Pure functions.

Source of the operator's rules: gpu-operator controllers/state_manager.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.gpu_operator.policy import Policy

PCI = "feature.node.kubernetes.io/pci-10de.present"
PRESENT = "nvidia.com/gpu.present"
OPERANDS = "nvidia.com/gpu.deploy.operands"
NFD_PREFIX = "feature.node.kubernetes.io/"
MIG_CONFIG = "nvidia.com/mig.config"
MIG_CAPABLE = "nvidia.com/mig.capable"
MIG_MANAGER = "nvidia.com/gpu.deploy.mig-manager"
UPGRADES_DRIVERS = "nvidia.com/gpu-driver-upgrade-enabled"
DEPLOY: tuple[str, ...] = tuple(
    f"nvidia.com/gpu.deploy.{operand}"
    for operand in (
        "driver",
        "container-toolkit",
        "device-plugin",
        "gpu-feature-discovery",
        "dcgm",
        "dcgm-exporter",
        "node-status-exporter",
        "operator-validator",
        "client",
    )
)

Changes = dict[str, str | None]
"""Label -> new value, None to remove it."""


def operator_changes(node: JsonObject, labels: Mapping[str, str], policy: Policy) -> Changes:
    """labels: the node's."""
    if labels.get(PCI) != "true":
        gone = [PRESENT, MIG_MANAGER, *DEPLOY] if labels.get(PRESENT) == "true" else []
        return {k: ("false" if k == PRESENT else None) for k in gone if k in labels}
    changes: Changes = {}
    if labels.get(PRESENT) != "true":
        changes[PRESENT] = "true"
    if labels.get(OPERANDS) == "false":
        return {**changes, **{k: None for k in (*DEPLOY, MIG_MANAGER) if k in labels}}
    # An existing value is never overwritten: an administrator sets `false`, mig-manager
    # `paused-for-mig-change`.
    changes.update({k: "true" for k in DEPLOY if not labels.get(k)})
    if mig_capable(labels):
        if not labels.get(MIG_MANAGER):
            changes[MIG_MANAGER] = "true"
        if policy.mig_manager.enabled and policy.mig_default and not labels.get(MIG_CONFIG):
            changes[MIG_CONFIG] = policy.mig_default
    # The label of a node without MIG stays: an administrator may have set it before its GPUs were
    # discovered.
    return changes


def system_of(node: JsonObject) -> str:
    """Its operating system, as the tags of driver images have it: `ubuntu22.04`."""
    labels = node["metadata"].get("labels") or {}
    prefix = f"{NFD_PREFIX}system-os_release"
    return f"{labels.get(f'{prefix}.ID', '')}{labels.get(f'{prefix}.VERSION_ID', '')}"


def upgrade_changes(node: JsonObject, policy: Policy) -> Changes:
    """Of its annotations: whether the operator itself empties it for another driver."""
    has = (node["metadata"].get("annotations") or {}).get(UPGRADES_DRIVERS)
    wanted = "true" if policy.upgrades_drivers and has_gpu(node) else None
    return {} if has == wanted else {UPGRADES_DRIVERS: wanted}


def has_nfd_labels(node: JsonObject) -> bool:
    return any(name.startswith(NFD_PREFIX) for name in node["metadata"].get("labels") or {})


def has_gpu(node: JsonObject) -> bool:
    """Whether the operator counts it as a GPU node."""
    return (node["metadata"].get("labels") or {}).get(PRESENT) == "true"


def mig_capable(labels: Mapping[str, str]) -> bool:
    """By GFD's label, else by the product name, which covers no GPU newer than H100."""
    if "nvidia.com/vgpu.host-driver-version" in labels:
        return False
    if MIG_CAPABLE in labels:
        return labels[MIG_CAPABLE] == "true"
    product = labels.get("nvidia.com/gpu.product", "").lower()
    return any(name in product for name in ("h100", "a100", "a30"))
