"""`nfd-worker`: looks at its node, again every minute, and writes a NodeFeature object."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Final

from slicewright.kubeapi.client import SERVICE_ACCOUNT, ApiError, Client, Unreachable
from slicewright.rehearsal.cluster.feature_discovery import health
from slicewright.rehearsal.cluster.node.operands import node_features
from slicewright.telemetry.signals import at_signal

_EVERY_S: Final = 60.0


def main() -> int:
    stop = threading.Event()
    at_signal(stop.set)
    node = os.environ["NODE_NAME"]
    serves = False
    try:
        client = Client.in_cluster(user_agent="slicewright-nfd-worker")
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
        pod = client.get(f"/api/v1/namespaces/{namespace}/pods/{os.environ['POD_NAME']}")
        print(f"simulated nfd-worker of node {node}", flush=True)
        while True:
            found = node_features.labels(
                node_features.pci_devices(Path("/host-sys")),
                Path("/host-etc/os-release").read_text(),
                # Containers share the kernel of this machine.
                Path("/proc/sys/kernel/osrelease").read_text().strip(),
            )
            node_features.publish(client, node_features.node_feature(node, pod, found))
            if not serves:
                health.answer(sys.argv[1:])
                serves = True
            if stop.wait(_EVERY_S):
                return 0
    except (ApiError, Unreachable, OSError) as e:
        print(f"nfd-worker: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
