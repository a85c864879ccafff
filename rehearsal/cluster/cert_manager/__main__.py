"""`python -m slicewright.rehearsal.cluster.cert_manager`: runs in a pod, until SIGTERM."""

from __future__ import annotations

import logging
import signal
import sys
import threading

from slicewright.kubeapi.client import Client, Unreachable
from slicewright.rehearsal.cluster.cert_manager.controller import run


def main() -> int:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    try:
        client = Client.in_cluster(user_agent="slicewright-cert-manager")
    except (Unreachable, OSError) as e:
        print(f"cert-manager stand-in: {e}", file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    print("cert-manager stand-in (simulated v1.19.1): self-signed certificates only", flush=True)
    run(client, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
