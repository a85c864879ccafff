"""The controller's pod. One replica, Deployment strategy Recreate: two at once would do the same
things twice, no harm, no lease.

Exit codes: 0 after SIGTERM or SIGINT, 2 where it cannot start.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

from fleet_controller import metrics
from fleet_controller.api import CONTROLLER_PORT
from fleet_controller.loop import Loop
from fleet_controller.observe import Cluster
from kubeapi import Client, Unreachable
from telemetry import log
from telemetry.endpoints import serve

# One API call may take 30 s, and a pass has many; a pass that takes longer than this makes no
# progress.
_STALLED_S = 300.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fleet_controller",
        description="Turns the nodes' GPU reports into node conditions, released nodes and pool "
        "status.",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=CONTROLLER_PORT,
        help=f"of /healthz, /readyz, /metrics on POD_IP (default {CONTROLLER_PORT})",
    )
    options = parser.parse_args(arguments)
    log.start()
    stop = threading.Event()
    try:
        cluster = Cluster.of(Client.in_cluster(user_agent="slicewright-fleet-controller"))
    except Unreachable as e:
        print(f"fleet_controller: {e}", file=sys.stderr)
        return 2

    def end(*_: object) -> None:
        stop.set()
        cluster.bell.set()  # the loop may be asleep for half a minute

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    loop = Loop(cluster)
    address = os.environ.get("POD_IP", "127.0.0.1")

    def alive() -> str | None:
        age = time.monotonic() - loop.progress.turned
        return None if age < _STALLED_S else f"the loop has not come round for {age:.0f} s"

    def ready() -> str | None:
        return cluster.trouble() or loop.progress.error

    def numbers() -> str:
        return metrics.text(loop.progress, list(cluster.pools.all().values()))

    try:
        server = serve(address, options.port, alive=alive, ready=ready, metrics=numbers)
    except OSError as e:
        print(
            f"fleet_controller: cannot listen on {address}:{options.port}: {e.strerror or e}",
            file=sys.stderr,
        )
        return 2
    cluster.follow(stop)
    log.info("watching", server=cluster.client.server, http=f"{address}:{options.port}")
    loop.run(stop)
    server.shutdown()
    log.info("stopped")
    return 0
