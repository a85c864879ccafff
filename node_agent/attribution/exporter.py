"""`slicewright-agent attribution`: which pod holds which partition, for Prometheus. A program
beside the agent, not a part of it.

The kubelet's socket belongs to root, so this runs as root, without capabilities; and therefore it
has nothing else: no NVML, no account of the API server. The agent, which has both, stays an
ordinary user.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from node_agent.attribution import pod_resources
from node_agent.attribution.grpc_call import NoAnswer
from node_agent.attribution.pod_resources import Holding
from telemetry import log
from telemetry.endpoints import serve
from telemetry.prometheus import Family, Sample, labels, lines

_DEADLINE_S: Final = 5.0
_STALL_AFTER_S: Final = 60.0
_PREFIX: Final = "nvidia.com/"
_GKE_ID: Final = re.compile(r"nvidia(\d+)(?:/gi(\d+))?(?:/vgpu\d+)?")
"""`nvidia0`, `nvidia0/gi3`, and with sharing `nvidia0/vgpu1`, `nvidia0/gi3/vgpu1`; the number is
that of /dev/nvidia<minor>. Source: GoogleCloudPlatform/container-engine-accelerators,
pkg/gpu/nvidia (manager.go, mig/mig.go, gpusharing/gpusharing.go).
"""
_NOT_ASKED: Final = "the kubelet has not been asked yet"


@dataclass
class Page:
    """What is told. Written by the loop, read by the HTTP server's threads: `text` is replaced as a
    whole.
    """

    text: str = ""
    trouble: str | None = _NOT_ASKED
    """Why nothing is known; None where it is."""
    turned: float = field(default_factory=time.monotonic)

    def alive(self) -> str | None:
        """None, or why not. A kubelet that does not answer is no reason to start anew: it would
        answer no better.
        """
        age = time.monotonic() - self.turned
        return None if age < _STALL_AFTER_S else f"the loop has not come round for {age:.0f} s"

    def ready(self) -> str | None:
        return self.trouble

    def look(self, path: str) -> None:
        """Asks the kubelet once, and says in the log what is new about that."""
        holdings: tuple[Holding, ...] = ()
        trouble = None
        try:
            holdings = pod_resources.read(path, deadline_s=_DEADLINE_S)
        except NoAnswer as e:
            trouble = str(e)
        if trouble != self.trouble:
            if trouble:
                log.warning(
                    "the kubelet does not say which pod holds which device", problem=trouble
                )
            else:
                log.info("the kubelet says which pod holds which device", socket=path)
        self.trouble = trouble
        self.text = (
            "\n".join(line for family in families(holdings, trouble) for line in lines(family))
            + "\n"
        )
        self.turned = time.monotonic()


def run(path: str, *, address: str, port: int, interval_s: float, stop: threading.Event) -> None:
    """Until `stop` is set. Raises OSError where it cannot listen."""
    page = Page()
    server = serve(address, port, alive=page.alive, ready=page.ready, metrics=lambda: page.text)
    log.info("attributing", http=f"{address}:{server.server_port}")
    try:
        while not stop.is_set():
            page.look(path)
            stop.wait(interval_s)
    finally:
        server.shutdown()


def families(holdings: Iterable[Holding], trouble: str | None) -> Iterator[Family]:
    """Without series for partitions where nothing is known: an old one would name a pod that may be
    gone.
    """
    up = (Sample("", int(trouble is None)),)
    yield Family(
        "slicewright_attribution_up",
        "gauge",
        "1 where the kubelet says which pod holds which device.",
        up,
    )
    # A set: the replicas of one device that a container holds are one partition.
    held = {
        labels(
            **part(device),
            resource=h.resource,
            namespace=h.namespace,
            pod=h.pod,
            container=h.container,
        )
        for h in holdings
        if h.resource.startswith(_PREFIX)
        for device in h.devices
    }
    yield Family(
        "slicewright_partition_pod_info",
        "gauge",
        "Always 1; the container that holds a MIG device or a whole GPU.",
        tuple(Sample(pairs, 1) for pairs in sorted(held)),
    )


def part(device: str) -> dict[str, str]:
    """Labels that tell a device by its id in the kubelet: `uuid`, or GKE's `minor` and
    `gpu_instance`.

    NVIDIA's plugin gives UUIDs, and `<uuid>::<n>` where pods share one; GKE's plugin gives places.
    Source of NVIDIA's: k8s-device-plugin, internal/rm/devices.go (AnnotatedID).
    """
    if gke := _GKE_ID.fullmatch(device):
        minor, instance = gke.groups()
        return {"minor": minor, **({"gpu_instance": instance} if instance else {})}
    return {"uuid": device.partition("::")[0]}
