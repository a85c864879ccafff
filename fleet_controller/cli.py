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

from slicewright.apis.names import CONTROLLER_LEASE, CONTROLLER_PORT, NAMESPACE
from slicewright.fleet_controller.app import metrics
from slicewright.fleet_controller.app.loop import Loop
from slicewright.fleet_controller.cluster.collection import error_text
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.election import Election
from slicewright.telemetry import log
from slicewright.telemetry.endpoints import serve
from slicewright.telemetry.plain import plain
from slicewright.telemetry.signals import at_signal

# One API call may take 30 s, and a pass makes many of them.
_STALLED_S = 300.0
_LEASE_TIMEOUT_S = 4.0
_USER_AGENT = "slicewright-fleet-controller"


def main(arguments: Sequence[str] | None = None) -> int:
    port = _parse(arguments)
    log.start()
    try:
        replica = _Replica.connect()
    except Unreachable as e:
        print(f"fleet_controller: {plain(str(e))}", file=sys.stderr)
        return 2
    at_signal(replica.end)
    address = os.environ.get("POD_IP", "127.0.0.1")
    try:
        server = serve(
            address, port, alive=replica.alive, ready=replica.ready, metrics=replica.metrics
        )
    except OSError as e:
        print(
            f"fleet_controller: cannot listen on {address}:{port}: {e.strerror or e}",
            file=sys.stderr,
        )
        return 2
    why = replica.run(server.host_and_port)
    server.shutdown()
    log.info("stopped", why=why or "")
    return 1 if why else 0


def _parse(arguments: Sequence[str] | None) -> int:
    """Returns the port to listen on."""
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
    port: int = parser.parse_args(arguments).port
    return port


class _Replica:
    """This process: the cluster that it follows, its election and its control loop."""

    def __init__(self, cluster: Cluster, election: Election) -> None:
        self._cluster = cluster
        self._election = election
        self._loop = Loop(cluster, term=election.term)
        self._stop = threading.Event()
        self._over = threading.Event()
        self._electing = threading.Thread(
            target=election.follow, args=(self._over,), name="lease", daemon=True
        )

    @classmethod
    def connect(cls) -> _Replica:
        """Connects to the cluster of this pod. Raises Unreachable."""
        cluster = Cluster.of(Client.in_cluster(user_agent=_USER_AGENT))
        # A replica that cannot renew the lease must know it before the deadline.
        client = Client.in_cluster(timeout_s=_LEASE_TIMEOUT_S, user_agent=_USER_AGENT)
        return cls(cluster, _election(client, cluster))

    def run(self, http: str) -> str | None:
        """Follows the cluster and acts on it until `end`. Returns why it ended otherwise, or None.

        http: the address of the health endpoints, for the log.
        """
        self._cluster.follow(self._stop)
        log.info("watching the cluster", server=self._cluster.client.server, http=http)
        self._electing.start()
        self._loop.run(self._stop)
        why = None if self._stop.is_set() else self._cluster.ended()
        self._stop.set()
        # Only now: no other replica may begin before the last action has ended.
        self._over.set()
        self._electing.join()
        try:
            self._election.release()
        except (ApiError, Unreachable) as e:
            log.warning("lease not released; it expires", error=error_text(e))
        return why

    def end(self) -> None:
        self._stop.set()
        self._cluster.changed.set()  # wakes the loop

    def alive(self) -> str | None:
        """Returns why the process must be restarted, or None."""
        if self._electing.ident and not self._electing.is_alive():
            return "the thread that holds the lease has ended"
        age = time.monotonic() - self._loop.progress.last_turn
        return None if age < _STALLED_S else f"the control loop has been stuck for {age:.0f} s"

    def ready(self) -> str | None:
        """Returns why the process cannot do all its work, or None."""
        return (
            self._cluster.incomplete()
            or self._cluster.outdated()
            or self._loop.progress.error
            or _unreadable_pool(self._cluster)
        )

    def metrics(self) -> str:
        cluster = self._cluster
        return metrics.text(
            self._loop.progress,
            list(cluster.pools.all().values()),
            list(cluster.nodes.all().values()),
            time.time(),
            leads=self._election.leads(),
            unreadable={kind: len(names) for kind, names in cluster.unreadable().items()},
            pods_on=cluster.bound.on,
        )


def _unreadable_pool(cluster: Cluster) -> str | None:
    """Returns the first pool that cannot be read, and why, or None if all can."""
    pools = sorted(cluster.pools.unreadable().items())
    if not pools:
        return None
    name, why = pools[0]
    more = f" (and {len(pools) - 1} more)" if len(pools) > 1 else ""
    return (
        f"GPUPool {name} cannot be read: {why}{more}; its nodes are not released, "
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
        on_error=lambda why: log.warning("cannot read the lease", error=why),
    )
