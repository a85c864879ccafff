"""The life of one cluster: the facts that distinguish it from other clusters of the same name.

A tag names a cluster, and names are reused. Pure: facts from the cloud, the state and the cluster
go in, and the proofs for a resource come out. Missing or unreadable facts prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from slicewright.teardown.sweep.leftovers import Leftover

Key = tuple[str, str]
"""Kind and ID of a leftover."""


@dataclass(frozen=True, kw_only=True)
class Life:
    begun: str = ""
    """The cluster's creation time by the cloud's clock, in ISO 8601. Empty: unknown."""
    networks: frozenset[str] = frozenset()
    """IDs of the networks that the stack created. Nothing in them is older than the stack."""
    groups: frozenset[str] = frozenset()
    """IDs of security groups that EKS or the stack created for this cluster."""
    balancers: frozenset[str] = frozenset()
    """Names and DNS names of the load balancers of its Services, Ingresses and Gateways."""
    named: frozenset[Key] = frozenset()
    """Resources that the cluster's objects named, to be deleted with them."""
    named_if_later: frozenset[Key] = frozenset()
    """Named resources that count only if they were created after the cluster."""
    retained: frozenset[Key] = frozenset()
    """Named resources that must outlive the cluster."""
    audited: bool = False
    """True if EKS has written the cluster's audit log."""

    def precedes(self, created: str) -> bool:
        """True if a resource of that time was certainly created after the cluster."""
        begun, then = moment(self.begun), moment(created)
        return begun is not None and then is not None and begun < then

    def judged(self, leftover: Leftover) -> Leftover:
        """Returns the leftover with the proof from the cluster's own objects, if there is one."""
        if key_of(leftover) in self.retained:
            proof = leftover.proof or "objects in this cluster reference it and retain it"
            return replace(leftover, proof=proof, retained=True)
        if leftover.proof:
            return leftover
        later = key_of(leftover) in self.named_if_later and self.precedes(leftover.created)
        if key_of(leftover) in self.named or later:
            return replace(
                leftover, proof="objects in this cluster reference it and are deleted with it"
            )
        return leftover

    def joined(self, now: Life) -> Life:
        """Adds later knowledge. A retained resource stays retained.

        Between the two looks, a destruction that was allowed to delete it may have changed its
        policy and then been cut off.
        """
        retained = self.retained | now.retained
        return Life(
            begun=now.begun or self.begun,
            networks=self.networks | now.networks,
            groups=self.groups | now.groups,
            balancers=self.balancers | now.balancers,
            named=(self.named | now.named) - retained,
            named_if_later=(self.named_if_later | now.named_if_later) - retained,
            retained=retained,
            audited=self.audited or now.audited,
        )


def key_of(leftover: Leftover) -> Key:
    return (leftover.kind, leftover.id)


def moment(text: str) -> datetime | None:
    """Returns None if the text has no time that can be compared with others."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo is not None else None


def in_iso(value: Any) -> str:
    """Formats a time that a cloud's client returned. Empty if the value is not a time."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str) else ""


def network_proof(network: object, life: Life) -> str:
    if isinstance(network, str) and network in life.networks:
        return f"in {network}, which the stack created"
    return ""


def fields_of(life: Life) -> Mapping[str, Any]:
    """Returns the life's JSON fields."""
    return {
        "begun": life.begun,
        "networks": sorted(life.networks),
        "groups": sorted(life.groups),
        "balancers": sorted(life.balancers),
        "named": sorted(map(list, life.named)),
        "named_if_later": sorted(map(list, life.named_if_later)),
        "retained": sorted(map(list, life.retained)),
        "audited": life.audited,
    }


def life_from(fields: Mapping[str, Any]) -> Life:
    """Reads the fields that `fields_of` wrote, else raises KeyError, TypeError or ValueError."""
    return Life(
        begun=_text(fields["begun"]),
        networks=_texts(fields["networks"]),
        groups=_texts(fields["groups"]),
        balancers=_texts(fields["balancers"]),
        named=_keys(fields["named"]),
        named_if_later=_keys(fields["named_if_later"]),
        retained=_keys(fields["retained"]),
        audited=fields["audited"] is True,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(values: object) -> frozenset[str]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return frozenset(map(_text, values))


def _keys(values: object) -> frozenset[Key]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return frozenset((_text(kind), _text(identity)) for kind, identity in values)
