"""A simulated node's hardware: the annotation that the simulated cloud puts on its Node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ANNOTATION = "rehearsal.slicewright.io/machine"


class BadMachine(Exception):
    """The annotation is invalid; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The hardware of one node."""

    cloud: Literal["gke", "eks", "byo"]
    """byo: a machine of the user's own, whose image holds driver and container toolkit."""
    gpu_model: str | None = None
    """A key of slicewright.rehearsal.cluster.silicon.models; None: no GPUs."""
    gpu_count: int = 0
    driver_version: str = ""
    """Empty: no driver is installed."""
    driver_after_s: float = 0.0
    """Seconds from the node's first moment to its driver; 0: it is in the image."""
    driver_by_installer: bool = False
    """Google's installer brings the driver, from a pod; until it runs there is none."""
    machine_type: str | None = None
    gke_gpu_config: Mapping[str, Any] | None = None
    """What GKE writes to /etc/nvidia/gpu_config.json."""
    bottlerocket: Mapping[str, Any] | None = None
    """Bottlerocket's settings.kubelet-device-plugins.nvidia; None: another operating system."""

    user_data: tuple[str, ...] = ()
    """The shell scripts of its user data, which cloud-init runs before the kubelet starts."""

    @property
    def driver_in_image(self) -> bool:
        """Whether none has to be loaded: it is there after each boot."""
        return bool(self.driver_version) and not self.driver_by_installer

    @property
    def toolkit_in_image(self) -> bool:
        """Whether containerd knows the runtime `nvidia` from the first moment on.

        EKS's accelerated images hold driver and container toolkit, and nodeadm configures
        containerd before the kubelet starts (awslabs/amazon-eks-ami); so do GPU images of managed
        clusters elsewhere. GKE's nodes have no toolkit.
        """
        return self.cloud != "gke" and bool(self.driver_version)

    @property
    def nvidia_by_default(self) -> bool:
        """Whether containerd's default runtime is `nvidia`.

        nodeadm makes it so on EKS. `nvidia-ctk runtime configure` does not, unless asked to:
        on other machines a container has NVIDIA's runtime by its runtime class, or gets its GPUs
        by CDI. Source: NVIDIA Container Toolkit docs, "Installing", containerd for Kubernetes.
        """
        return self.cloud == "eks"


def read(annotation: str | Mapping[str, Any]) -> Machine:
    """The machine that the annotation (text, or parsed JSON) describes. Raises BadMachine."""
    try:
        given = json.loads(annotation) if isinstance(annotation, str) else annotation
        return Machine(
            cloud=given["cloud"],
            gpu_model=given.get("gpu_model"),
            gpu_count=int(given.get("gpu_count") or 0),
            driver_version=str(given.get("driver_version") or ""),
            driver_after_s=float(given.get("driver_after_s") or 0.0),
            driver_by_installer=bool(given.get("driver_by_installer")),
            machine_type=given.get("machine_type"),
            gke_gpu_config=given.get("gke_gpu_config"),
            bottlerocket=given.get("bottlerocket"),
            user_data=tuple(map(str, given.get("user_data") or ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise BadMachine(
            f"annotation {ANNOTATION} is invalid ({type(e).__name__}: {e}): {str(annotation)[:200]}"
        ) from e
