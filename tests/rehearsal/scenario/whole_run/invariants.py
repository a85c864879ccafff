"""What must hold of a pool at every moment, whatever happens to it: judged from the versions of the
API server's objects alone, with nothing of the controller's own code.

Versions of all kinds are numbers of one etcd, so that it is known what a node was when a pod was
bound to it, though its news come by another watch. Times are used for one thing only: what a fault
has just done, nobody can have seen. `JUST_S` is generous, and what is out for longer counts.
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

POOL = "slicewright.io/pool"
TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"
CONDITION = "slicewright.io/GPUPartitionsReady"
CHANGE = "slicewright.io/layout-change"
VERIFIED_BOOT = "slicewright.io/verified-boot"
STATE = "nvidia.com/mig.config.state"
LAYOUT = "nvidia.com/mig.config"
JUST_S = 10.0
"""For so long nobody can be blamed for what a fault has done."""
SILENT_S = 6.0
"""A lease that is not renewed for longer than this has no holder that acts: he does so every 2 s.
"""


@dataclass(frozen=True, kw_only=True)
class Node:
    name: str
    uid: str
    version: int
    at: float
    """When the news came; seconds."""
    boot: str
    verified_boot: str
    ready: bool
    held: bool
    cordoned: bool
    phase: str
    """Of the change of its layout; empty: none."""
    state: str
    layout: str
    reason: str

    @property
    def unproven(self) -> bool:
        """As far as the Node itself tells."""
        return self.boot != self.verified_boot or self.state in ("pending", "rebooting")

    @property
    def closed(self) -> bool:
        return self.held or self.cordoned

    @property
    def out(self) -> bool:
        return self.closed or not self.ready or bool(self.phase)


def read_node(raw: Mapping[str, Any], at: float) -> Node:
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    said = {c["type"]: c for c in status.get("conditions") or ()}
    return Node(
        name=meta["name"],
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        at=at,
        boot=(status.get("nodeInfo") or {}).get("bootID", ""),
        verified_boot=notes.get(VERIFIED_BOOT, ""),
        ready=said.get("Ready", {}).get("status") == "True",
        held=any(taint["key"] == TAINT for taint in spec.get("taints") or ()),
        cordoned=spec.get("unschedulable") is True,
        phase=json.loads(notes[CHANGE])["phase"] if CHANGE in notes else "",
        state=labels.get(STATE, ""),
        layout=labels.get(LAYOUT, ""),
        reason=said.get(CONDITION, {}).get("reason", ""),
    )


@dataclass(frozen=True, kw_only=True)
class Pod:
    path: str
    uid: str
    version: int
    at: float
    node: str
    healthy: bool
    leaving: bool
    ended: bool
    evicted: bool
    """By the eviction API."""
    gpus: bool
    protected: bool
    """By the disruption budget."""


def read_pod(raw: Mapping[str, Any], at: float, protected: Mapping[str, str]) -> Pod:
    """protected: the labels that the disruption budget selects."""
    meta, status = raw["metadata"], raw.get("status") or {}
    said = {c["type"]: c for c in status.get("conditions") or ()}
    leaving = "deletionTimestamp" in meta
    limits = [
        (container.get("resources") or {}).get("limits") or {}
        for container in raw["spec"]["containers"]
    ]
    return Pod(
        path=f"{meta['namespace']}/{meta['name']}",
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        at=at,
        node=raw["spec"].get("nodeName") or "",
        healthy=not leaving and said.get("Ready", {}).get("status") == "True",
        leaving=leaving,
        ended=status.get("phase") in ("Succeeded", "Failed"),
        evicted=said.get("DisruptionTarget", {}).get("reason") == "EvictionByEvictionAPI",
        gpus=any(name.startswith("nvidia.com/") for each in limits for name in each),
        protected=protected.items() <= (meta.get("labels") or {}).items(),
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    uid: str
    """Of its node."""
    version: int
    boot: str
    verdict: str
    layout_hash: str


def read_report(raw: Mapping[str, Any]) -> Report:
    report = raw.get("report") or {}
    owners = [o["uid"] for o in raw["metadata"].get("ownerReferences") or ()]
    return Report(
        uid=owners[0] if owners else "",
        version=int(raw["metadata"]["resourceVersion"]),
        boot=report.get("bootID", ""),
        verdict=report.get("verdict", ""),
        layout_hash=report.get("observedHash", ""),
    )


@dataclass
class Invariants:
    """One pool's. Every `see_…` takes the news of one kind in their order."""

    pool: str
    limit: int
    """maxUnavailable, in nodes."""
    min_available: int
    """Of the pods that the disruption budget protects."""
    protected: Mapping[str, str]
    documented: frozenset[str]
    """Every reason that a page of the documentation has."""
    violations: list[str] = field(default_factory=list)
    begun: list[tuple[float, str]] = field(default_factory=list)
    """Changes that have begun: when, and of which node."""
    evictions: int = 0
    bindings: int = 0
    lifted: int = 0
    most_changing: int = 0
    open_on_purpose: set[str] = field(default_factory=set)
    """Names of nodes that a scene has made without the startup taint."""
    cordoned_by_people: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._history: dict[str, list[Node]] = {}
        """By name, in the order of versions; those of an earlier node of the name, too."""
        self._out_since: dict[str, float] = {}
        self._pods: dict[str, Pod] = {}
        self._lost: list[float] = []
        """When a protected pod was lost by anything but an eviction."""
        self._reports: dict[str, list[Report]] = {}
        self._hashes: list[tuple[float, str]] = []
        self._layout = ""
        """The value of the label that is wanted now."""
        self._bound: list[Pod] = []
        self._lifts: list[tuple[Node, bool]] = []
        """With whether the node had another layout than the wanted one."""
        self._deleted: list[tuple[Pod, str]] = []
        """Pods that were deleted and not evicted, with the uid of their node."""
        self._open: dict[str, Node] = {}
        """Nodes that are unproven and open, by name, as they became it."""
        self._renewed: list[float] = []
        self._said: set[str] = set()

    # The news.

    def see_node(
        self, raw: Mapping[str, Any], at: float, *, gone: bool = False, listed: bool = False
    ) -> None:
        """listed: as a list has it, so that it is not known what came before what: ask
        `all_listed` when all have come.
        """
        name = raw["metadata"]["name"]
        if (raw["metadata"].get("labels") or {}).get(POOL) != self.pool:
            return
        old = self._nodes.get(name)
        if gone:
            self._close(name, at)
            self._nodes.pop(name, None)
            self._out_since.pop(name, None)
            return
        new = read_node(raw, at)
        if old and old.version >= new.version:
            return
        if old and old.uid != new.uid:
            old = None
            self._close(name, at)
            self._out_since.pop(name, None)
        self._said_of(f"node {name}", new.reason)
        if new.phase and not (old and old.phase):
            self._begins(new, old, at, listed=listed)
        if old and old.held and not new.held:
            self.lifted += 1
            self._lifts.append((new, new.layout != self._layout))
        self._nodes[name] = new
        self._history.setdefault(name, []).append(new)
        if not new.out:
            self._out_since.pop(name, None)
        else:
            self._out_since.setdefault(name, at)
        if new.unproven and not new.closed and name not in self.open_on_purpose:
            self._open.setdefault(name, new)
        else:
            self._close(name, at)
        if not listed:
            self.most_changing = max(self.most_changing, len(self._changing()))

    def all_listed(self, at: float) -> None:
        if len(changing := self._changing()) > self.limit:
            self._wrong(at, f"{len(changing)} nodes in a change: {', '.join(changing)}")

    def see_pod(
        self, raw: Mapping[str, Any], at: float, *, gone: bool = False, listed: bool = False
    ) -> None:
        new = read_pod(raw, at, self.protected)
        if not new.gpus:
            return
        old = self._pods.get(new.uid)
        if gone:
            self._pods.pop(new.uid, None)
            if new.protected and old and old.healthy and not new.evicted:
                self._lost.append(at)
            return
        if old and old.version >= new.version:
            return
        self._pods[new.uid] = new
        if new.node and not (old and old.node):
            self.bindings += 1
            if not listed:
                self._bound.append(new)
        if not new.protected:
            return
        if new.leaving and not (old and old.leaving) and not new.ended:
            if new.evicted:
                self._evicted(new, at)
            elif new.node:
                there = self._nodes.get(new.node)
                self._deleted.append((new, there.uid if there else ""))
        if old and old.healthy and not new.healthy and not new.evicted:
            self._lost.append(at)

    def see_report(self, raw: Mapping[str, Any]) -> None:
        report = read_report(raw)
        known = self._reports.setdefault(raw["metadata"]["name"], [])
        if not known or known[-1].version < report.version:
            known.append(report)

    def see_pool(self, raw: Mapping[str, Any], at: float) -> None:
        if raw["metadata"]["name"] != self.pool:
            return
        status = raw.get("status") or {}
        layout_hash, self._layout = raw["spec"]["layoutHash"], raw["spec"].get("migConfig", "")
        if status.get("observedGeneration") == raw["metadata"].get("generation"):
            # After an undo the nodes are to have an earlier layout than the spec's.
            for known in status.get("provenLayouts") or ():
                if known["migConfig"] == status.get("layout") != self._layout:
                    layout_hash, self._layout = known["layoutHash"], known["migConfig"]
                    break
        if not self._hashes or self._hashes[-1][1] != layout_hash:
            self._hashes.append((at, layout_hash))
        for condition in status.get("conditions") or ():
            self._said_of(f"condition {condition['type']}", condition["reason"])
        for node in status.get("failingNodes") or ():
            self._said_of(f"failing node {node['name']}", node["reason"])

    def see_lease(self, raw: Mapping[str, Any], at: float) -> None:
        if raw["spec"].get("holderIdentity"):
            self._renewed.append(at)

    # What is judged once the news of all kinds have come.

    def judge(self, at: float) -> None:
        """Every watch has caught up with what there was a moment ago."""
        for name in list(self._open):
            self._close(name, at, still=True)
        for pod in self._bound:
            self._judge_binding(pod)
        for node, earlier in self._lifts:
            self._judge_lift(node, earlier=earlier)
        for pod, uid in self._deleted:
            there = self._nodes.get(pod.node)
            if there and there.uid == uid and not self._booted_since(pod):
                self._wrong(pod.at, f"pod {pod.path} was deleted, not evicted, on {pod.node}")
        for node in self._nodes.values():
            if node.cordoned and not node.phase and node.name not in self.cordoned_by_people:
                self._wrong(node.at, f"the cordon of {node.name} stays, and nothing says why")
        self._bound, self._lifts, self._deleted = [], [], []

    # Each rule.

    def _changing(self) -> list[str]:
        return sorted(node.name for node in self._nodes.values() if node.phase)

    def _begins(self, new: Node, old: Node | None, at: float, *, listed: bool) -> None:
        self.begun.append((at, new.name))
        if listed:
            return
        changing = sorted({*self._changing(), new.name})
        if len(changing) > self.limit:
            self._wrong(at, f"{len(changing)} nodes in a change: {', '.join(changing)}")
        if old and old.out:
            return  # it costs nothing
        others = [
            node.name
            for node in self._nodes.values()
            if node.name != new.name
            and node.out
            and (node.phase or at - self._out_since.get(node.name, at) > JUST_S)
        ]
        if len(others) + 1 > self.limit:
            self._wrong(at, f"{new.name} begins to change while {', '.join(others)} are out")

    def _evicted(self, pod: Pod, at: float) -> None:
        self.evictions += 1
        node = self._nodes.get(pod.node)
        if node and not (node.cordoned or node.phase):
            self._wrong(at, f"pod {pod.path} is evicted from {pod.node}, which is open")
        healthy = sum(one.healthy and one.protected for one in self._pods.values())
        just_lost = sum(at - when <= JUST_S for when in self._lost)
        if healthy + just_lost < self.min_available:
            self._wrong(
                at,
                f"pod {pod.path} is evicted, and {healthy} of {self.min_available} are left, "
                f"{just_lost} lost just before",
            )

    def _close(self, name: str, at: float, *, still: bool = False) -> None:
        """The node is no longer unproven and open; still: it is, and this is where we look."""
        since = self._open.get(name)
        if since is None:
            return
        if not still:
            del self._open[name]
        blamed = at - since.at - self._nobody_acted(since.at, at)
        if blamed > JUST_S:
            self._wrong(
                since.at,
                f"{name} is open to pods for {blamed:.0f} s while it is unproven: boot "
                f"{since.boot}, verified {since.verified_boot or 'never'}, state {since.state}",
            )

    def _nobody_acted(self, begin: float, end: float) -> float:
        """Seconds in which no controller could act: it was killed, or there was no API server."""
        before = [at for at in self._renewed if at <= begin]
        within = [at for at in self._renewed if begin < at < end]
        points = [before[-1] if before else begin, *within, end]
        total = 0.0
        for earlier, later in itertools.pairwise(points):
            if later - earlier > SILENT_S:
                # Who takes over lists everything, before it acts.
                total += min(later + JUST_S, end) - max(earlier, begin)
        return total

    def _judge_binding(self, pod: Pod) -> None:
        node = self._at(pod.node, pod.version)
        if node is None or node.name in self.open_on_purpose:
            return
        if not node.verified_boot:
            self._wrong(pod.at, f"pod {pod.path} is bound to {node.name}, never verified")
        since = self._closed_since(node)
        if since is not None and pod.at - since > JUST_S:
            self._wrong(
                pod.at,
                f"pod {pod.path} is bound to {node.name}, closed for {pod.at - since:.0f} s",
            )

    def _judge_lift(self, node: Node, *, earlier: bool) -> None:
        """By a match that the agent has reported of this boot and of the layout that is wanted.

        earlier: it waits for its turn in a rollout, and was away; in this boot it has proven the
        layout that it still has.
        """
        known = [r for r in self._reports.get(node.name, ()) if r.version <= node.version]
        fits = [
            r
            for r in known
            if r.uid == node.uid
            and r.boot == node.boot
            and r.verdict == "Match"
            and (r.layout_hash in self._wanted_at(node.at) or earlier)
        ]
        if not fits:
            last = known[-1] if known else None
            self._wrong(node.at, f"{node.name} is let go without a match: last report {last}")
        elif node.verified_boot != node.boot:
            self._wrong(node.at, f"{node.name} is let go, and its boot is not recorded")

    def _wanted_at(self, at: float) -> set[str]:
        """Hashes of the layouts that were wanted then, or a moment before."""
        earlier = [i for i, (since, _) in enumerate(self._hashes) if since <= at - JUST_S]
        first = earlier[-1] if earlier else 0
        return {one for since, one in self._hashes[first:] if since <= at + JUST_S}

    def _at(self, name: str, version: int) -> Node | None:
        known = self._history.get(name, [])
        place = bisect_right([node.version for node in known], version)
        return known[place - 1] if place else None

    def _closed_since(self, node: Node) -> float | None:
        """Since when it has been closed without a break; None where it is open."""
        since = None
        for one in self._history[node.name]:
            if one.version > node.version:
                break
            same = one.uid == node.uid and one.closed
            since = (one.at if since is None else since) if same else None
        return since

    def _booted_since(self, pod: Pod) -> bool:
        """Whether the pod's node was rebooted about that time."""
        boots = {node.boot for node in self._history.get(pod.node, ()) if node.at >= pod.at - 60}
        return len(boots) > 1

    def _said_of(self, what: str, reason: str) -> None:
        if reason and reason not in self.documented and reason not in self._said:
            self._said.add(reason)
            self.violations.append(f"{what} has the reason {reason}, which no page has")

    def _wrong(self, at: float, what: str) -> None:
        self.violations.append(f"{at:7.1f} s: {what}")


def summary(of: Invariants) -> Sequence[str]:
    """What it has seen, for people."""
    return (
        f"{len(of.begun)} changes of layouts begun, {of.most_changing} at most together "
        f"(allowed: {of.limit})",
        f"{of.bindings} pods with GPUs bound, {of.evictions} evicted, {of.lifted} times a startup "
        "taint lifted",
        f"{len(of.violations)} violations",
    )
