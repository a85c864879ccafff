"""`slicewright-agent attribution`: exports which pod uses which partition, for Prometheus.

It has a separate container: the kubelet's socket belongs to root, so this program runs as root,
without capabilities, NVML or access to the API server. The agent, which uses both, runs as an
ordinary user.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from slicewright.node_agent.attribution import pod_resources
from slicewright.node_agent.attribution.grpc_call import CallFailed
from slicewright.node_agent.attribution.pod_resources import ContainerDevices
from slicewright.telemetry import log
from slicewright.telemetry.endpoints import serve
from slicewright.telemetry.prometheus import Family, Sample, labels, lines

_DEADLINE_S: Final = 5.0
_STALL_AFTER_S: Final = 60.0
_PREFIX: Final = "nvidia.com/"
_GKE_ID: Final = re.compile(r"nvidia(\d+)(?:/gi(\d+))?(?:/vgpu\d+)?")
"""`nvidia0`, `nvidia0/gi3`, and with sharing `nvidia0/vgpu1`, `nvidia0/gi3/vgpu1`. The
number is the minor number of /dev/nvidia<minor>. Source:
GoogleCloudPlatform/container-engine-accelerators, pkg/gpu/nvidia (manager.go, mig/mig.go,
gpusharing/gpusharing.go).
"""
_NOT_ASKED: Final = "the kubelet has not been asked yet"


@dataclass
class Exporter:
    """Written by the loop, read by the HTTP server's threads: `text` is replaced as a whole."""

    text: str = ""
    error: str | None = _NOT_ASKED
    """Why the kubelet did not answer, None after an answer."""
    turned: float = field(default_factory=time.monotonic)

    def alive(self) -> str | None:
        """Returns None if alive, or why not. A silent kubelet does not count: a restart would not
        help.
        """
        age = time.monotonic() - self.turned
        return None if age < _STALL_AFTER_S else f"the loop's last turn began {age:.0f} s ago"

    def ready(self) -> str | None:
        return self.error

    def update(self, path: str) -> None:
        """Queries the kubelet once, and logs when its error changes."""
        held: tuple[ContainerDevices, ...] = ()
        error = None
        try:
            held = pod_resources.read(path, deadline_s=_DEADLINE_S)
        except CallFailed as e:
            error = str(e)
        if error != self.error:
            if error:
                log.warning("pod resources not read", problem=error)
            else:
                log.info("pod resources read", socket=path)
        self.error = error
        self.text = (
            "\n".join(line for family in families(held, error) for line in lines(family)) + "\n"
        )
        self.turned = time.monotonic()


def run(path: str, *, address: str, port: int, interval_s: float, stop: threading.Event) -> None:
    """Runs until `stop` is set. Raises OSError if it cannot listen."""
    exporter = Exporter()
    server = serve(
        address, port, alive=exporter.alive, ready=exporter.ready, metrics=lambda: exporter.text
    )
    log.info("attributing", http=server.host_and_port)
    try:
        while not stop.is_set():
            exporter.update(path)
            stop.wait(interval_s)
    finally:
        server.shutdown()


def families(held: Iterable[ContainerDevices], error: str | None) -> Iterator[Family]:
    """The metrics. Without an answer there are none of partitions, as their pods may be gone."""
    up = (Sample("", int(error is None)),)
    yield Family(
        "slicewright_attribution_up",
        "gauge",
        "1 if the kubelet answers which pod uses which device.",
        up,
    )
    # A set, because several replicas of a device in a container are a single partition.
    series = {
        labels(
            **device_labels(device),
            resource=h.resource,
            namespace=h.namespace,
            pod=h.pod,
            container=h.container,
        )
        for h in held
        if h.resource.startswith(_PREFIX)
        for device in h.devices
    }
    yield Family(
        "slicewright_partition_pod_info",
        "gauge",
        "Always 1; the container to which a MIG device or a whole GPU is allocated.",
        tuple(Sample(pairs, 1) for pairs in sorted(series)),
    )


def device_labels(device: str) -> dict[str, str]:
    """Labels from a device's id in the kubelet: `uuid`, or GKE's `minor` and `gpu_instance`.

    NVIDIA's plugin uses UUIDs, with sharing `<uuid>::<n>`. Source: NVIDIA k8s-device-plugin,
    internal/rm/devices.go (AnnotatedID).
    """
    if gke := _GKE_ID.fullmatch(device):
        minor, instance = gke.groups()
        return {"minor": minor, **({"gpu_instance": instance} if instance else {})}
    return {"uuid": device.partition("::")[0]}
