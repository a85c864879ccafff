"""`python -m slicewright.rehearsal.cluster.dcgm_exporter`: serves /metrics in a pod, until
SIGTERM.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from slicewright.node_agent.attribution import pod_resources
from slicewright.node_agent.attribution.grpc_call import CallFailed
from slicewright.node_agent.attribution.pod_resources import ContainerDevices
from slicewright.rehearsal.cluster.dcgm_exporter.page import page
from slicewright.rehearsal.cluster.silicon import state
from slicewright.telemetry.endpoints import serve
from slicewright.telemetry.signals import at_signal

_ADDRESS: Final = "SLICEWRIGHT_REHEARSAL_POD_ADDRESS"
"""Of the pod: all pods share this machine's network."""
_LISTEN: Final = "DCGM_EXPORTER_LISTEN"
_KUBERNETES: Final = "DCGM_EXPORTER_KUBERNETES"
_DEADLINE_S: Final = 5.0


def main(environment: Mapping[str, str]) -> int:
    """Exit codes: 0 after SIGTERM; 1 where the node has no GPU, or it cannot listen."""
    if not (silicon := environment.get(state.VARIABLE)):
        print("simulated: dcgm-exporter: this node has no GPU", file=sys.stderr)
        return 1
    hostname = environment.get("NODE_NAME") or environment.get("HOSTNAME", "")
    port = int(environment.get(_LISTEN, ":9400").rpartition(":")[2])

    def metrics() -> str:
        held = _held() if environment.get(_KUBERNETES) == "true" else ()
        return page(state.load(Path(silicon)), held, hostname=hostname)

    stop = threading.Event()
    at_signal(stop.set)
    try:
        server = serve(
            environment.get(_ADDRESS, "127.0.0.1"),
            port,
            alive=lambda: None,
            ready=lambda: None,
            metrics=metrics,
        )
    except OSError as e:
        print(f"simulated: dcgm-exporter: {e}", file=sys.stderr)
        return 1
    print(f"simulated: dcgm-exporter at {server.host_and_port}", flush=True)
    stop.wait()
    server.shutdown()
    return 0


def _held() -> tuple[ContainerDevices, ...]:
    """Nothing while the kubelet does not answer: the series are then of no pod."""
    try:
        return pod_resources.read(pod_resources.SOCKET, deadline_s=_DEADLINE_S)
    except CallFailed as e:
        print(f"simulated: dcgm-exporter: {e}", file=sys.stderr, flush=True)
        return ()


if __name__ == "__main__":
    sys.exit(main(os.environ))
