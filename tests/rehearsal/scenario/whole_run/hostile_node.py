"""One node of a fleet in an attacker's hands: it writes what its kubelet and agent may write."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from slicewright.apis import names
from slicewright.kubeapi import ApiError, Client, Unreachable
from tests.odd_values import TEXTS

NODES = "/api/v1/nodes"
EVENTS = "/api/v1/namespaces/default/events"
REPORTS = f"/apis/{names.API_VERSION}/{names.REPORT_PLURAL}"
_PAUSE_S = 0.2
_NOTES = (
    names.CHANGE_ANNOTATION,
    names.STUCK_ANNOTATION,
    names.JOINED_ANNOTATION,
    names.VERIFIED_BOOT_ANNOTATION,
    names.VERIFIED_LAYOUT_ANNOTATION,
    names.REPORTS_AFTER_ANNOTATION,
    names.CHANGED_ANNOTATION,
    names.DESIRED_ANNOTATION,
)
_REPORT_FIELDS = (
    "time",
    "message",
    "reason",
    "verdict",
    "bootID",
    "observedHash",
    "driver",
    "pool",
)


@dataclass
class Attacker:
    """Writes drawn objects until it is stopped, by the two accounts of one node.

    kubelet: a client with the certificate of the node's kubelet. agent: makes one with a token of
    the agent's pod there, which each change of the layout replaces; None without a pod. others: the
    pool's other nodes, for which it tries to speak.
    """

    node: str
    pool: str
    others: tuple[str, ...]
    kubelet: Client
    agent: Callable[[], Client | None]
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    """`write of the kubelet's accepted`, `… refused` -> how many."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._stop = threading.Event()
        self._of_agent: Client | None = None
        self._thread = threading.Thread(target=self._attack, name="attacker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _attack(self) -> None:
        writes: tuple[Callable[[], str], ...] = (
            self._annotate,
            self._annotate_by_status,
            self._set_condition,
            self._set_boot_id,
            self._create_event,
            self._spoil_report,
            self._report_for_another,
            self._relabel,
        )
        while not self._stop.wait(_PAUSE_S):
            write = self._random.choice(writes)
            try:
                outcome = f"{write()} accepted"
            except ApiError as e:
                if e.status == 401:
                    self._of_agent = None
                outcome = f"{write.__name__.strip('_')} refused: {e.status}"
            except Unreachable:
                outcome = "no answer"
            self.outcomes[outcome] += 1

    def _text(self) -> str:
        return self._random.choice(list(TEXTS.values()))

    def _annotate(self) -> str:
        notes = {"metadata": {"annotations": {self._random.choice(_NOTES): self._text()}}}
        self.kubelet.patch(f"{NODES}/{self.node}", notes)
        return "annotate"

    def _annotate_by_status(self) -> str:
        notes = {"metadata": {"annotations": {self._random.choice(_NOTES): self._text()}}}
        self.kubelet.patch(f"{NODES}/{self.node}/status", notes)
        return "annotate_by_status"

    def _set_condition(self) -> str:
        condition = {
            "type": names.NODE_CONDITION,
            "status": self._random.choice(["True", "False", "Unknown", "Perhaps"]),
            "reason": self._text()[:1000],
            "message": self._text(),
            "lastTransitionTime": self._random.choice(
                ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z", "2099-01-01T00:00:00Z"]
            ),
        }
        status = {"status": {"conditions": [condition]}}
        self.kubelet.patch(f"{NODES}/{self.node}/status", status, kind="strategic")
        return "set_condition"

    def _set_boot_id(self) -> str:
        boot_id = self._random.choice(["", "another boot", "x" * 100_000, "\u202e"])
        status = {"status": {"nodeInfo": {"bootID": boot_id}}}
        self.kubelet.patch(f"{NODES}/{self.node}/status", status)
        return "set_boot_id"

    def _create_event(self) -> str:
        name = f"{self.pool}.{self._random.getrandbits(64):016x}"
        event = {
            "metadata": {"name": name, "namespace": names.EVENTS_NAMESPACE},
            "involvedObject": {"kind": names.POOL_KIND, "name": self.pool},
            "source": {"component": "slicewright-fleet-controller"},
            "type": "Warning",
            "reason": "Forged",
            "message": self._text()[:1000],
            "lastTimestamp": "9999-12-31T23:59:59-23:59",
        }
        self.kubelet.create(EVENTS, event)
        return "create_event"

    def _spoil_report(self) -> str:
        spoilt = {"report": {self._random.choice(_REPORT_FIELDS): self._text()}}
        return self._report(self.node, spoilt, "spoil_report")

    def _report_for_another(self) -> str:
        other = self._random.choice(self.others)
        return self._report(other, {"report": {"verdict": "Mismatch"}}, "report_for_another")

    def _report(self, node: str, patch: dict[str, Any], what: str) -> str:
        self._of_agent = self._of_agent or self.agent()
        if self._of_agent is None:
            return f"{what} not"
        self._of_agent.patch(f"{REPORTS}/{node}", patch)
        return what

    def _relabel(self) -> str:
        key = self._random.choice(
            [names.POOL_LABEL, names.MIG_CONFIG_LABEL, "node-restriction.kubernetes.io/tenant"]
        )
        labels: dict[str, Any] = {"metadata": {"labels": {key: "forged"}}}
        self.kubelet.patch(f"{NODES}/{self.node}", labels)
        return "relabel"
