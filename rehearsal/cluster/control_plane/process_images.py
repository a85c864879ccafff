"""The images that run as real processes; read by the kubelet stand-in and for kwok's Stages.

A pod on a simulated node is managed by exactly one of the two. With two lists, both or neither
could write a pod's status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

Operands = Literal["nvidia", "simulated"]
"""Whether mig-manager, device plugin and feature discovery are NVIDIA's programs, or simulated by
the kubelet stand-in as NFD's worker then is, without a process; kwok keeps their pods' status.
"""
VARIABLE: Final = "SLICEWRIGHT_REHEARSAL_OPERANDS"
"""Chooses it for all clusters of an environment."""

_ALWAYS: Final = (
    r"^([^ ]+/)?python[:@]",  # from any registry: a stack file may name a copy
    r"^registry\.k8s\.io/pause[:@]",
    r"^gke\.gcr\.io/nvidia-gpu-device-plugin",
    r"^(docker\.io/)?vllm/vllm-openai[:@]",
    r"^quay\.io/prometheus/prometheus[:@]",
    r"^quay\.io/prometheus-operator/prometheus-operator[:@]",
    r"^ghcr\.io/kedacore/keda(-metrics-apiserver)?[:@]",
    r"^registry\.k8s\.io/prometheus-adapter/prometheus-adapter[:@]",
    r"^([^ ]+/)?volcanosh/vc-(scheduler|controller-manager)[:@]",
    r"^([^ ]+/)?projecthami/(hami|volcano-vgpu-device-plugin)[:@]",
    r"^([^ ]+/)?kube-scheduler[:@]",
    r"^quay\.io/jetstack/cert-manager-controller[:@]",
)
_OF_NVIDIA: Final[Mapping[Operands, str]] = {
    "nvidia": r"^nvcr\.io/nvidia/|^registry\.k8s\.io/nfd/",
    "simulated": r"^nvcr\.io/nvidia/([a-z0-9-]+/)?"
    r"(gpu-operator|container-toolkit|driver|cuda|tritonserver)[:@]"
    # Of one image: the master, and the job that removes its labels.
    r"|^registry\.k8s\.io/nfd/\S+ (nfd-)?master$",
}


def mode_of(environment: Mapping[str, str]) -> Operands:
    """Raises ValueError."""
    match environment.get(VARIABLE) or "nvidia":
        case "nvidia":
            return "nvidia"
        case "simulated":
            return "simulated"
        case other:
            raise ValueError(f"{VARIABLE}={other}: must be nvidia or simulated")


def pattern(operands: Operands) -> str:
    """A regular expression on image and name of a pod's first container, with a blank between them,
    in the syntax that Python and RE2 (kwok) share.
    """
    return "|".join((*_ALWAYS, _OF_NVIDIA[operands]))


def runs_as_process(image: str, name: str = "main", *, operands: Operands = "nvidia") -> bool:
    """Whether the kubelet stand-in, not kwok, runs a pod whose first container has this image and
    this name.
    """
    return re.search(pattern(operands), f"{image} {name}") is not None
