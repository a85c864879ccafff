"""Words for systems that slicewright does not manage, and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_EXISTING: Final = (
    "create the cluster and its GPU nodes with your own tools, and write cloud: byo with the "
    "context of its kubeconfig"
)
_DRA: Final = (
    "slicewright hands out GPUs by NVIDIA's device plugin, not by DRA: pods request nvidia.com/… "
    "resources; NVIDIA's DRA driver must not run on the same nodes"
)
_KUEUE: Final = (
    "Kueue is not installed here: install it yourself, and set its quotas on the resources that "
    "`slicewright plan` prints, such as nvidia.com/mig-1g.5gb"
)
_COMPUTE_CLASS: Final = (
    "GKE's compute classes create node pools that nothing verifies: list the pools here, with "
    "nodes: {min: …, max: …} and capacity, and select them by their labels"
)
_PROVISIONING: Final = (
    "node auto-provisioning creates node pools that nothing verifies: list the pools here, with "
    "nodes: {min: …, max: …}"
)
_AUTOPILOT: Final = (
    "Autopilot runs neither privileged agents nor node pools of one's own: use a GKE Standard "
    "cluster, which slicewright creates if this is left out"
)
_AUTO_MODE: Final = (
    "EKS Auto Mode manages its nodes and their device plugin itself, and cannot partition GPUs: "
    "leave it out; the pools here are node groups, or Karpenter's with autoscaler: {mode: "
    "karpenter}, and both may run in a cluster whose other nodes are Auto Mode's"
)
_OPENSHIFT: Final = (
    f"{_EXISTING}; OpenShift's certified operator is adopted with gpu_operator: {{existing: true}}"
)
_ANSWERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("aks", "azure", "oke", "oci", "oracle", "doks", "digitalocean", "lke", "linode"),
            *("ack", "alibaba", "tke", "tencent", "vke", "volcengine", "coreweave", "lambda"),
            *("nebius", "scaleway", "ovh", "ibm", "iks", "kubeadm", "rke", "rke2", "k3s", "talos"),
            *("on_prem", "onprem", "bare_metal", "baremetal"),
        ),
        _EXISTING,
    ),
    **dict.fromkeys(("openshift", "ocp", "rosa", "aro"), _OPENSHIFT),
    **dict.fromkeys(
        (
            *("dra", "enable_dra", "dynamic_resource_allocation", "resource_claims"),
            *("resource_claim", "resource_claim_template", "resource_claim_templates"),
            *("device_class", "device_classes", "gpu_cluster", "gpucluster", "dynamic_mig"),
        ),
        _DRA,
    ),
    **dict.fromkeys(
        ("kueue", "local_queue", "cluster_queue", "queue_name", "resource_flavor"), _KUEUE
    ),
    **dict.fromkeys(
        ("compute_class", "compute_classes", "custom_compute_class", "custom_compute_classes"),
        _COMPUTE_CLASS,
    ),
    **dict.fromkeys(
        ("node_auto_provisioning", "nap", "auto_provisioning", "cluster_autoscaling"),
        _PROVISIONING,
    ),
    **dict.fromkeys(("autopilot", "enable_autopilot", "gke_autopilot"), _AUTOPILOT),
    **dict.fromkeys(
        ("auto_mode", "automode", "eks_auto", "eks_auto_mode", "auto_mode_config"), _AUTO_MODE
    ),
    "compute_config": _AUTO_MODE,
    "node_pools_auto_mode": _AUTO_MODE,
}
"""Word in snake case -> the answer."""


def answer_for(word: str) -> str:
    """What to do instead of a system's word. Empty if it is none."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[- ]", "_", word).casefold()
    return _ANSWERS.get(snake, "")
