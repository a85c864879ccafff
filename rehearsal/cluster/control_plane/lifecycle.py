"""Start, stop and remove one cluster's control plane.

Each is idempotent, and continues where an interrupted call ended.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.rehearsal.cluster.control_plane import (
    admission,
    egress,
    files,
    kubeconfig,
    kwok,
    parts,
    pki,
    ports,
    process_images,
    waiting,
)
from slicewright.rehearsal.cluster.control_plane.access_webhooks import AccessWebhooks
from slicewright.rehearsal.cluster.control_plane.errors import ControlPlaneError
from slicewright.rehearsal.cluster.control_plane.files import Endpoint
from slicewright.rehearsal.cluster.control_plane.parts import Part
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.processes import Recorded
from slicewright.rehearsal.host.toolchain import Toolchain

_USERS = ("admin", "controller-manager", "scheduler", "kwok", "kubelet")
_PKI = pki.Pki(directory=Path("pki"))
"""Relative to the cluster's directory: flags would interpret some characters of absolute paths."""
_STAGES = "kwok-stages.yaml"
_ADMISSION = "admission.json"
_FIELDS = "slicewright-rehearsal"
"""The manager of the fields of objects that the rehearsal writes."""
_READY_S = 90.0
_STOP_S = 10.0


def start(
    environment: Path,
    cluster: str,
    toolchain: Toolchain,
    *,
    critical_pods_need_quota: bool = False,
    webhooks: AccessWebhooks | None = None,
) -> Endpoint:
    """Starts what does not run of the five processes, and returns when the API server is ready.

    Data, certificates and (if still free) the port of an earlier start are used again. A start that
    fails or is interrupted ends what it started. Raises ControlPlaneError.

    critical_pods_need_quota: see `admission`. webhooks: they decide on users beside RBAC. Both are
    the same at every start of a cluster.
    """
    directory = files.directory(environment, cluster)
    with files.locked(directory):
        endpoint = files.endpoint(directory)
        if endpoint and _all_run(environment, cluster) and waiting.is_ready(_admin(directory)):
            return endpoint
        starting = _Start(
            environment.resolve(),
            cluster,
            toolchain,
            directory,
            critical_pods_need_quota=critical_pods_need_quota,
            webhooks=webhooks,
        )
        try:
            return starting.run(endpoint)
        except BaseException as e:
            starting.undo()
            if isinstance(e, (processes.ProcessError, OSError)):
                raise ControlPlaneError(f"cluster {cluster}: {e}") from e
            raise


def stop(environment: Path, cluster: str) -> None:
    """Ends the cluster's processes, clients of the API server first, etcd last. Its data stays."""
    directory = files.directory(environment, cluster)
    if directory.exists():
        with files.locked(directory):
            _stop(environment, cluster)
    else:
        _stop(environment, cluster)


def remove(environment: Path, cluster: str) -> None:
    """Stops the cluster and deletes its directory with everything in it."""
    directory = files.directory(environment, cluster)
    if directory.exists():
        with files.locked(directory):
            _stop(environment, cluster)
            shutil.rmtree(directory)
    else:
        _stop(environment, cluster)


class _Start:
    """One run of `start`, and what it has started so far."""

    def __init__(
        self,
        environment: Path,
        cluster: str,
        tools: Toolchain,
        directory: Path,
        *,
        critical_pods_need_quota: bool,
        webhooks: AccessWebhooks | None,
    ) -> None:
        self._environment = environment
        self._cluster = cluster
        self._tools = tools
        self._directory = directory
        self._admission = Path(_ADMISSION) if critical_pods_need_quota else None
        self._webhooks = webhooks
        self._started: list[Recorded] = []

    def run(self, last_endpoint: Endpoint | None) -> Endpoint:
        if last_endpoint is None:
            # The port of an API server that an interrupted start left is not known.
            _stop(self._environment, self._cluster)
        server = self._find("kube-apiserver")
        held = None
        if last_endpoint and server:
            port = last_endpoint.port
        else:
            held = ports.hold_port(last_endpoint.port if last_endpoint else None)
            port = held.number
        try:
            endpoint = self._write_files(port)
            base = [self._ensure(parts.etcd(self._tools))]
            # Takes 0.1 s; an API server that finds no etcd retries only after 1 s.
            waiting.wait_for(
                "etcd",
                lambda: waiting.listens(self._directory, parts.ETCD_SOCKET),
                running=base,
                timeout_s=_READY_S,
            )
            apiserver = parts.apiserver(
                self._tools, _PKI, port, admission=self._admission, webhooks=self._webhooks
            )
            base.append(self._ensure(apiserver))
            client = _admin(self._directory)
            waiting.wait_for(
                "a ready API server",
                lambda: waiting.is_ready(client),
                running=base,
                timeout_s=_READY_S,
            )
        finally:
            if held:
                held.release()
        # Not before the API server is ready: it writes their RBAC rules at its start, and without
        # these they would be refused and back off for seconds.
        rest = [
            self._ensure(
                parts.controller_manager(self._tools, _PKI, self._kubeconfig("controller-manager"))
            ),
            self._ensure(parts.scheduler(self._tools, self._kubeconfig("scheduler"))),
        ]
        if not self._find("kwok"):
            _forget_node_leases(client)
            self._permit_kwok(client, running=[*base, *rest])
        rest.append(
            self._ensure(
                parts.kwok_controller(self._tools, self._kubeconfig("kwok"), Path(_STAGES))
            )
        )
        everything = base + rest
        waiting.wait_for(
            "ServiceAccounts",
            lambda: waiting.hands_out_accounts(client),
            running=everything,
            timeout_s=_READY_S,
        )
        return endpoint

    def _permit_kwok(self, client: Client, *, running: list[Recorded]) -> None:
        """Returns when kwok has its rights: refused, it would back off for seconds."""
        try:
            for path, manifest in kwok.permissions():
                client.patch(path, manifest, kind="apply", fieldManager=_FIELDS, force="true")
        except (ApiError, Unreachable) as e:
            raise ControlPlaneError(f"kwok's role cannot be written: {e}") from e
        user = Client.from_kubeconfig(files.kubeconfig(self._directory, "kwok"), timeout_s=5.0)
        waiting.wait_for(
            "kwok's rights",
            lambda: waiting.may_list_nodes(user),
            running=running,
            timeout_s=_READY_S,
        )

    def undo(self) -> None:
        for record in sorted(self._started, key=lambda record: record.stop_rank):
            processes.stop(record, grace_s=_STOP_S)

    def _write_files(self, port: int) -> Endpoint:
        certificates = pki.ensure(self._directory / _PKI.directory)
        endpoint = Endpoint(
            server=f"https://127.0.0.1:{port}",
            ca_pem=certificates.ca.read_bytes(),
            kubeconfig=files.kubeconfig(self._directory, "admin"),
        )
        for user in _USERS:
            content = kubeconfig.render(
                cluster=self._cluster, server=endpoint.server, pki=certificates, user=user
            )
            files.write(files.kubeconfig(self._directory, user), content)
        files.write(self._directory / _STAGES, kwok.stages(process_images.mode_of(os.environ)))
        files.write(self._directory / egress.FILE, egress.through_kubelet())
        for name, content in self._webhooks.files() if self._webhooks else ():
            files.write(self._directory / name, content)
        if self._admission:
            files.write(self._directory / self._admission, admission.critical_pods_need_quota())
        files.store_endpoint(self._directory, endpoint)
        return endpoint

    def _kubeconfig(self, user: str) -> Path:
        return files.kubeconfig(Path(), user)

    def _find(self, kind: str) -> Recorded | None:
        return processes.find(self._environment, parts.process_name(kind, self._cluster))

    def _ensure(self, part: Part) -> Recorded:
        if running := self._find(part.kind):
            return running
        # Nothing of the caller's environment: no proxy, no KUBECONFIG, no home directory.
        env = {"PATH": os.defpath, "HOME": str(self._directory), **part.env}
        name = parts.process_name(part.kind, self._cluster)
        record = processes.start(
            self._environment,
            name,
            part.argv,
            env=env,
            cwd=self._directory,
            stop_rank=part.stop_rank,
        )
        self._started.append(record)
        return record


def _all_run(environment: Path, cluster: str) -> bool:
    return all(
        processes.find(environment, parts.process_name(kind, cluster)) for kind in parts.KINDS
    )


def _stop(environment: Path, cluster: str) -> None:
    names = {parts.process_name(kind, cluster) for kind in parts.KINDS}
    ours = [record for record in processes.recorded(environment) if record.name in names]
    try:
        for record in sorted(ours, key=lambda record: record.stop_rank):
            processes.stop(record, grace_s=_STOP_S)
    except processes.ProcessError as e:
        raise ControlPlaneError(f"cluster {cluster}: {e}") from e


def _admin(directory: Path) -> Client:
    return Client.from_kubeconfig(files.kubeconfig(directory, "admin"), timeout_s=5.0)


def _forget_node_leases(client: Client) -> None:
    """Deletes the node leases, so that a new kwok takes over the nodes at once.

    It has a new identity, and would wait up to 40 s for its predecessor's leases to expire.
    """
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    try:
        for lease in client.get(leases).get("items") or ():
            client.delete(f"{leases}/{lease['metadata']['name']}")
    except ApiError as e:
        if e.status != 404:
            raise ControlPlaneError(f"old node leases cannot be deleted: {e}") from e
