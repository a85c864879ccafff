"""Leader election by a Lease of coordination.k8s.io, compatible with client-go's leaderelection.

A replica takes a lease only after it has seen no change of it for the holder's lease duration:
clocks of two machines are never compared. A holder that cannot renew its lease stops acting at the
renew deadline, before another replica may begin. Source: k8s.io/client-go v0.36,
tools/leaderelection/leaderelection.go.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slicewright.kubeapi.client import ApiError, JsonObject, Unreachable, path_of

_API = "coordination.k8s.io/v1"
_KIND = "Lease"
_JITTER = 0.2


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds. The defaults are the usual ones with client-go, as in Kubernetes' controllers."""

    lease: float = 15.0
    """How long a lease that is not renewed is respected."""
    renew: float = 10.0
    """How long a holder acts without a renewal."""
    retry: float = 2.0
    """Pause between two attempts."""

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry * (1 + _JITTER):
            raise ValueError(
                "lease must be longer than renew, and renew longer than retry with its jitter"
            )


@dataclass(frozen=True, kw_only=True)
class Record:
    """The spec of a Lease. Any change of it shows that its holder is alive."""

    holder: str = ""
    lease_s: float = 0.0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0

    @classmethod
    def from_lease(cls, lease: Mapping[str, Any]) -> Record:
        spec = lease.get("spec") or {}
        return cls(
            holder=spec.get("holderIdentity") or "",
            lease_s=float(spec.get("leaseDurationSeconds") or 0),
            acquired=spec.get("acquireTime") or "",
            renewed=spec.get("renewTime") or "",
            transitions=int(spec.get("leaseTransitions") or 0),
        )

    def spec(self) -> JsonObject:
        return {
            "holderIdentity": self.holder,
            # The API server refuses 0.
            "leaseDurationSeconds": max(1, int(self.lease_s)),
            "acquireTime": self.acquired or None,
            "renewTime": self.renewed or None,
            "leaseTransitions": self.transitions,
        }


class Election:
    """The election of one replica. `follow` runs in its own thread. `leads` is thread-safe."""

    def __init__(
        self,
        client: Any,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: Times = Times(),
        clock: Callable[[], float] = time.monotonic,
        utc: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_change: Callable[[bool], None] = lambda _: None,
        on_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        """The client's timeout must be less than the renew deadline. identity: unique to each
        process. on_change is called with the new result of `leads`, soon after it changes.
        """
        self.identity = identity
        self.holder = ""
        """The holder of the lease when it was last read."""
        self._client, self._times, self._clock, self._utc = client, times, clock, utc
        self._on_change, self._on_error = on_change, on_error
        self._leases = path_of(_API, "leases", namespace=namespace)
        self._name, self._namespace = name, namespace
        self._last_record: Record | None = None
        self._last_change_s = float("-inf")
        """When the record last changed, by this process's clock."""
        self._renewed_at = float("-inf")
        """When the last successful renewal was sent, by this process's clock."""
        self._terms = 0
        self._led = False

    def leads(self) -> bool:
        """Whether this process may act at this moment."""
        return self._clock() < self._renewed_at + self._times.renew

    def term(self) -> int:
        """The number of this process's current term, counted from 1, or 0 if it does not lead.
        Another replica may have led between two terms, even if nobody called this meanwhile.
        """
        # The term is read after `leads`: it is the current term, or one that begins now.
        return self._terms if self.leads() else 0

    def follow(self, stop: threading.Event) -> None:
        """Takes the lease when it is free, and renews it, until `stop` is set; then gives it up."""
        while not stop.is_set():
            try:
                self.attempt()
            except (ApiError, Unreachable) as e:
                self._on_error(str(e))
            self._tell()
            pause = self._times.retry * random.uniform(1, 1 + _JITTER)  # noqa: S311 - not a secret
            remaining_s = self._renewed_at + self._times.renew - self._clock()
            # Wakes by the deadline, so that the end of a term is reported in time.
            stop.wait(min(pause, remaining_s) if remaining_s > 0 else pause)
            self._tell()

    def attempt(self) -> bool:
        """Takes or renews the lease, if that is allowed now. True if this process holds it.

        Raises ApiError or Unreachable.
        """
        sent = self._clock()
        try:
            lease = self._client.get(f"{self._leases}/{self._name}")
        except ApiError as e:
            if e.status != 404:
                raise
            lease = None
        record = Record.from_lease(lease) if lease else Record()
        if record != self._last_record:
            # Timed from the answer, which is later than the write, so it is respected for longer.
            self._last_record, self._last_change_s, self.holder = (
                record,
                self._clock(),
                record.holder,
            )
        ours = record.holder == self.identity
        if record.holder and not ours:
            # Does not wait for the deadline: the new holder (after a deletion, say) acts already.
            self._renewed_at = float("-inf")
            if self._clock() < self._last_change_s + record.lease_s:
                return False
        now = self._utc().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        renewal = Record(
            holder=self.identity,
            lease_s=self._times.lease,
            acquired=record.acquired if ours else now,
            renewed=now,
            transitions=record.transitions + (lease is not None and not ours),
        )
        if not self._write(lease, renewal):
            return False
        self._last_record, self._last_change_s, self.holder = renewal, self._clock(), self.identity
        self._terms += not self.leads()
        self._renewed_at = sent
        return True

    def release(self) -> None:
        """Gives the lease up, if this process holds it: another replica may take it at once.

        Call it only after all work has ended. Raises ApiError or Unreachable.
        """
        self._renewed_at = float("-inf")
        self._tell()
        lease = self._client.get(f"{self._leases}/{self._name}")
        record = Record.from_lease(lease)
        if record.holder != self.identity:
            return
        now = self._utc().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._write(
            lease,
            Record(lease_s=1.0, acquired=now, renewed=now, transitions=record.transitions),
        )

    def _write(self, lease: JsonObject | None, record: Record) -> bool:
        """Returns False if another replica was quicker."""
        body: JsonObject = {"apiVersion": _API, "kind": _KIND, "spec": record.spec()}
        try:
            if lease is None:
                body["metadata"] = {"name": self._name, "namespace": self._namespace}
                self._client.create(self._leases, body)
            else:
                # The metadata has the resourceVersion, so one of two concurrent writes is refused.
                body["metadata"] = lease["metadata"]
                self._client.replace(f"{self._leases}/{self._name}", body)
        except ApiError as e:
            if e.status == 409:
                return False
            raise
        return True

    def _tell(self) -> None:
        if self._led != self.leads():
            self._led = not self._led
            self._on_change(self._led)
