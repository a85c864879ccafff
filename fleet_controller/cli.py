"""The controller's command.

Exit code 0 after SIGTERM or SIGINT, 1 if it can no longer follow the cluster, 2 if it cannot start.

It runs as two replicas, and only the holder of the Lease acts. The other has read the cluster and
takes over within seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import uuid
from collections.abc import Sequence

from apis.names import CONTROLLER_LEASE, CONTROLLER_PORT, NAMESPACE
from fleet_controller.app import metrics
from fleet_controller.app.loop import Loop
from fleet_controller.cluster.collection import error_text
from fleet_controller.cluster.observe import Cluster
from kubeapi import ApiError, Client, Unreachable
from kubeapi.election import Election
from telemetry import log
from telemetry.endpoints import serve
from telemetry.plain import plain
from telemetry.signals import at_signal

# One API call may take 30 s, and a pass makes many of them.
_STALLED_S = 300.0
_LEASE_TIMEOUT_S = 4.0
_USER_AGENT = "slicewright-fleet-controller"


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
        cluster = Cluster.of(Client.in_cluster(user_agent=_USER_AGENT))
        # A replica that cannot renew the lease must know it before the deadline.
        election = _election(
            Client.in_cluster(timeout_s=_LEASE_TIMEOUT_S, user_agent=_USER_AGENT), cluster
        )
    except Unreachable as e:
        print(f"fleet_controller: {plain(str(e))}", file=sys.stderr)
        return 2

    def end() -> None:
        stop.set()
        cluster.changed.set()  # wakes the loop

    at_signal(end)
    loop = Loop(cluster, term=election.term)
    address = os.environ.get("POD_IP", "127.0.0.1")

    over = threading.Event()
    electing = threading.Thread(target=election.follow, args=(over,), name="lease", daemon=True)

    def alive() -> str | None:
        if electing.ident and not electing.is_alive():
            return "the thread that holds the lease has ended"
        age = time.monotonic() - loop.progress.last_turn
        return None if age < _STALLED_S else f"the control loop has been stuck for {age:.0f} s"

    def ready() -> str | None:
        return (
            cluster.incomplete()
            or cluster.outdated()
            or loop.progress.error
            or _unreadable_pool(cluster)
        )

    def page() -> str:
        pools, nodes = list(cluster.pools.all().values()), list(cluster.nodes.all().values())
        return metrics.text(
            loop.progress,
            pools,
            nodes,
            time.time(),
            leads=election.leads(),
            unreadable={kind: len(names) for kind, names in cluster.unreadable().items()},
        )

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
    electing.start()
    loop.run(stop)
    why = None if stop.is_set() else cluster.ended()
    stop.set()
    # Only now: no other replica may begin before the last action has ended.
    over.set()
    electing.join()
    try:
        election.release()
    except (ApiError, Unreachable) as e:
        log.warning("the lease is not given up; it expires", error=error_text(e))
    server.shutdown()
    log.info("stopped", why=why or "")
    return 1 if why else 0


def _unreadable_pool(cluster: Cluster) -> str | None:
    """Returns the first pool that cannot be read, and why, or None if all can."""
    odd = sorted(cluster.pools.unreadable().items())
    if not odd:
        return None
    more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
    return (
        f"GPUPool {odd[0][0]} cannot be read: {odd[0][1]}{more}; its nodes are not released, "
        "uncordoned or changed"
    )


def _election(client: Client, cluster: Cluster) -> Election:
    def changed(leads: bool) -> None:
        log.info("this replica acts" if leads else "this replica stands by")
        cluster.changed.set()  # wakes the loop

    return Election(
        client,
        namespace=os.environ.get("POD_NAMESPACE", NAMESPACE),
        name=CONTROLLER_LEASE,
        # A container that is restarted in its pod is another process.
        identity=f"{os.environ.get('POD_NAME', 'replica')}_{uuid.uuid4().hex[:8]}",
        on_change=changed,
        on_error=lambda why: log.warning("lease not readable", error=why),
    )
