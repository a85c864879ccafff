"""The reconcile loop: applies the ClusterPolicy and writes its status."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from slicewright.kubeapi.client import ApiError, Client, JsonObject, Unreachable, path_of
from slicewright.kubeapi.watch import Event, list_and_watch
from slicewright.rehearsal.cluster.gpu_operator import labels as wanted_labels
from slicewright.rehearsal.cluster.gpu_operator.daemonsets import MANAGED
from slicewright.rehearsal.cluster.gpu_operator.labels import has_gpu, has_nfd_labels
from slicewright.rehearsal.cluster.gpu_operator.operands import PLURALS, daemonset_states, objects
from slicewright.rehearsal.cluster.gpu_operator.policy import Policy, PolicyError, parse

_log = logging.getLogger(__name__)
_FIELD_MANAGER = "gpu-operator"
_SETTLE_S = 0.1
"""Events within this time are handled by one pass."""
_RESYNC_S = 30.0
_HASH = "nvidia.com/last-applied-hash"


class Store:
    """The watched objects by name. Written by the watch threads, read by the loop."""

    def __init__(self, changed: threading.Event) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, JsonObject] = {}
        self._changed = changed
        self.listed = False

    def take(self, event: Event) -> None:
        with self._lock:
            if event.type == "LISTED":
                self._objects = {_key(o): o for o in event.items}
                self.listed = True
            elif event.type == "DELETED":
                self._objects.pop(_key(event.object), None)
            elif event.type in ("ADDED", "MODIFIED"):
                self._objects[_key(event.object)] = event.object
            else:
                return
        self._changed.set()

    def put(self, changed: JsonObject) -> None:
        """Stores an answer of the API server, unless the watch has delivered a newer version."""
        with self._lock:
            known = self._objects.get(_key(changed))
            if known is None or _version(known) < _version(changed):
                self._objects[_key(changed)] = changed

    def all(self) -> list[JsonObject]:
        with self._lock:
            return list(self._objects.values())


class Operator:
    """Runs in the calling thread."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._stop = threading.Event()
        self._changed = threading.Event()
        self.nodes = Store(self._changed)
        self.policies = Store(self._changed)
        self.daemonsets = Store(self._changed)
        self._applied: dict[str, str] = {}
        self._statuses: dict[str, JsonObject] = {}

    def stop(self) -> None:
        """Lets `run` return. For another thread."""
        self._stop.set()
        self._changed.set()

    def run(self) -> None:
        """Reconciles until `stop`."""
        watches: tuple[tuple[str, Store], ...] = (
            ("/api/v1/nodes", self.nodes),
            ("/apis/nvidia.com/v1/clusterpolicies", self.policies),
            (path_of("apps/v1", "daemonsets", None, self._namespace), self.daemonsets),
        )
        for path, store in watches:
            threading.Thread(
                target=self._watch, args=(path, store), name=f"watch {path}", daemon=True
            ).start()
        while not self._stop.is_set():
            self._changed.wait(_RESYNC_S)
            if self._stop.wait(_SETTLE_S):
                return
            self._changed.clear()
            if not (self.nodes.listed and self.policies.listed and self.daemonsets.listed):
                # An incomplete list would make it remove labels of objects not yet listed.
                continue
            try:
                self.reconcile()
            except (ApiError, Unreachable) as e:
                _log.warning("reconcile failed, retrying in 1 s: %s", e)
                self._stop.wait(1.0)
                self._changed.set()

    def reconcile(self) -> None:
        """One pass. Raises ApiError, Unreachable; a later pass continues."""
        policies = sorted(
            self.policies.all(),
            key=lambda p: (p["metadata"].get("creationTimestamp", ""), p["metadata"]["name"]),
        )
        if not policies:
            self._applied.clear()
            return
        for ignored in policies[1:]:
            self._report(
                ignored,
                "ignored",
                "Ignored",
                "there is an older ClusterPolicy; only one per cluster is used",
            )
        first = policies[0]
        if "deletionTimestamp" in first["metadata"]:
            return
        try:
            policy = parse(first)
        except PolicyError as e:
            self._report(first, "notReady", "ReconcileFailed", str(e))
            return
        self._label_for_operands(policy)
        gpu_nodes = [node for node in self.nodes.all() if has_gpu(node)]
        system = wanted_labels.system_of(gpu_nodes[0]) if gpu_nodes else None
        self._apply(objects(policy, self._namespace, gpu_nodes_system=system))
        self._remove_disabled(policy)
        waiting = self._not_ready(policy) if gpu_nodes else []
        if waiting:
            self._report(
                first,
                "notReady",
                "OperandNotReady",
                f"ClusterPolicy is not ready, states not ready: [{' '.join(waiting)}]",
            )
        elif not any(map(has_nfd_labels, self.nodes.all())):
            self._report(first, "ready", "NFDLabelsMissing", "No NFD labels found")
        elif not gpu_nodes:
            self._report(
                first,
                "ready",
                "NoGPUNodes",
                "No GPU node found, watching for new nodes to join the cluster.",
            )
        else:
            self._report(
                first,
                "ready",
                "Reconciled",
                "ClusterPolicy is ready as all resources have been successfully reconciled",
            )

    # -- nodes
    # ----------------------------------------------------------------------------------------------

    def _label_for_operands(self, policy: Policy) -> None:
        for node in self.nodes.all():
            labels = node["metadata"].get("labels") or {}
            changes = wanted_labels.operator_changes(node, labels, policy)
            notes = wanted_labels.upgrade_changes(node, policy)
            if changes or notes:
                self._patch_node(node, {"labels": changes, "annotations": notes})

    def _patch_node(self, node: JsonObject, metadata: Mapping[str, object]) -> None:
        name = node["metadata"]["name"]
        try:
            answer = self._client.patch(
                path_of("v1", "nodes", name),
                {"metadata": {"uid": node["metadata"]["uid"], **metadata}},
            )
        except ApiError as e:
            if e.status not in (404, 409):
                raise
            if e.status == 409:
                self._changed.set()  # written by another; or recreated, which the watch reports
            return
        self.nodes.put(answer)
        _log.info("node %s: %s", name, json.dumps(metadata.get("labels"), sort_keys=True))

    # -- operands
    # ----------------------------------------------------------------------------------------------

    def _apply(self, made: list[JsonObject]) -> None:
        present = {d["metadata"]["name"]: d for d in self.daemonsets.all()}
        for one in made:
            plural, namespaced = PLURALS[one["kind"]]
            text = json.dumps(one, sort_keys=True)
            key = f"{one['kind']}/{one['metadata']['name']}"
            gone = one["kind"] == "DaemonSet" and one["metadata"]["name"] not in present
            if self._applied.get(key) == text and not gone:
                continue
            path = path_of(
                one["apiVersion"],
                plural,
                one["metadata"]["name"],
                self._namespace if namespaced else None,
            )
            if one["kind"] == "RuntimeClass":
                self._create_or_replace(path, one)
                self._applied[key] = text
                continue
            answer = self._client.patch(
                path, one, kind="apply", fieldManager=_FIELD_MANAGER, force="true"
            )
            if one["kind"] == "DaemonSet":
                self.daemonsets.put(answer)
            self._applied[key] = text
            _log.info("applied %s", key)

    def _create_or_replace(self, path: str, wanted: JsonObject) -> None:
        """For the kind that the chart's ClusterRole does not let the operator patch."""
        try:
            self._client.create(path.rpartition("/")[0], wanted)
        except ApiError as e:
            if e.status != 409:
                raise
            found = self._client.get(path)
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            self._client.replace(path, {**wanted, "metadata": {**wanted["metadata"], **version}})

    def _remove_disabled(self, policy: Policy) -> None:
        wanted = set(daemonset_states(policy))
        for daemonset in self.daemonsets.all():
            metadata = daemonset["metadata"]
            ours = all((metadata.get("labels") or {}).get(k) == v for k, v in MANAGED.items())
            if ours and metadata["name"] not in wanted and "deletionTimestamp" not in metadata:
                try:
                    self._client.delete(
                        path_of("apps/v1", "daemonsets", metadata["name"], self._namespace)
                    )
                except ApiError as e:
                    if e.status != 404:
                        raise
                self._applied.pop(f"DaemonSet/{metadata['name']}", None)
                _log.info("deleted DaemonSet/%s: its operand is disabled", metadata["name"])

    def _not_ready(self, policy: Policy) -> list[str]:
        present = {d["metadata"]["name"]: d for d in self.daemonsets.all()}
        return [
            state
            for name, state in daemonset_states(policy).items()
            if not _is_ready(present.get(name))
        ]

    def _report(self, cluster_policy: JsonObject, state: str, reason: str, message: str) -> None:
        """Writes the status as NVIDIA's operator: `reason` is that of the condition that is True.

        Source: NVIDIA/gpu-operator, internal/conditions/clusterpolicy.go.
        """
        old = cluster_policy.get("status") or {}
        ready = state == "ready"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        before = {c["type"]: c for c in old.get("conditions") or ()}
        conditions = []
        for kind, true, otherwise in (("Ready", ready, "Error"), ("Error", not ready, "Ready")):
            status = "True" if true else "False"
            same = before.get(kind, {}).get("status") == status
            conditions.append(
                {
                    "type": kind,
                    "status": status,
                    "reason": reason if true else otherwise,
                    "message": message if true else "",
                    "lastTransitionTime": before[kind]["lastTransitionTime"] if same else now,
                }
            )
        written = {"state": state, "namespace": self._namespace, "conditions": conditions}
        if old == written:
            return
        name = cluster_policy["metadata"]["name"]
        path = path_of("nvidia.com/v1", "clusterpolicies", name)
        self.policies.put(self._client.patch(f"{path}/status", {"status": written}))
        _log.info("ClusterPolicy %s: %s %s", name, state, message)

    def _watch(self, path: str, store: Store) -> None:
        for event in list_and_watch(self._client, path, stop=self._stop, backoff_max_s=5.0):
            store.take(event)


def _is_ready(daemonset: JsonObject | None) -> bool:
    if daemonset is None:
        return False
    status = daemonset.get("status") or {}
    if status.get("observedGeneration", 0) < daemonset["metadata"].get("generation", 0):
        return False
    desired = status.get("desiredNumberScheduled", 0)
    return bool(
        status.get("numberReady", 0) == desired
        and status.get("updatedNumberScheduled", 0) == desired
    )


def _key(api_object: JsonObject) -> str:
    metadata = api_object["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _version(api_object: JsonObject) -> int:
    return int(api_object["metadata"]["resourceVersion"])
