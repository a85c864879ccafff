"""The controller's command: exit code 0 after SIGTERM or SIGINT, 2 where it cannot start.

It runs as one replica with strategy Recreate. There is no leader election: two at once would only
do the same things twice.
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
from telemetry.plain import plain

# One API call may take 30 s, and a pass makes many of them.
_STALLED_S = 300.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="fleet_controller",
        description="Turns GPU node reports into node conditions, startup taints and pool status.",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=CONTROLLER_PORT,
        help="port of /healthz, /readyz and /metrics, on the address in POD_IP "
        f"(default {CONTROLLER_PORT})",
    )
    options = parser.parse_args(arguments)
    log.start()
    stop = threading.Event()
    try:
        cluster = Cluster.of(Client.in_cluster(user_agent="slicewright-fleet-controller"))
    except Unreachable as e:
        print(f"fleet_controller: {plain(str(e))}", file=sys.stderr)
        return 2

    def end(*_: object) -> None:
        stop.set()
        cluster.changed.set()  # wakes the loop

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    loop = Loop(cluster)
    address = os.environ.get("POD_IP", "127.0.0.1")

    def alive() -> str | None:
        age = time.monotonic() - loop.progress.last_turn
        return None if age < _STALLED_S else f"the control loop has been stuck for {age:.0f} s"

    def ready() -> str | None:
        return cluster.incomplete() or cluster.outdated() or loop.progress.error

    def page() -> str:
        return metrics.text(loop.progress, list(cluster.pools.all().values()))

    try:
        server = serve(address, options.port, alive=alive, ready=ready, metrics=page)
    except OSError as e:
        print(
            f"fleet_controller: cannot listen on {address}:{options.port}: {e.strerror or e}",
            file=sys.stderr,
        )
        return 2
    cluster.follow(stop)
    log.info("watching", server=cluster.client.server, http=server.host_and_port)
    loop.run(stop)
    server.shutdown()
    log.info("stopped")
    return 0
