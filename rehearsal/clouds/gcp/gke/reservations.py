"""Machines that the account has reserved, and how node pools use them up.

The account file lists the reservations; without the list there is one for whatever is asked for.

Sources: Compute Engine's pages "Reservations of Compute Engine zonal resources" and "Consume
instances"; GKE's page "Consume reserved zonal resources". The words of the refusals: for a
reservation that is too small, or whose machines are others, GoogleCloudPlatform/gsutil #1000; for
one that does not exist, GoogleCloudPlatform/cluster-toolkit #5043; for a block of another
project's, cluster-toolkit's modules/compute/gke-node-pool. Those of ANY_RESERVATION_THEN_FAIL are
not published: the rehearsal's are after the first of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.errors import not_simulated
from slicewright.rehearsal.clouds.gcp.account import Reservation, account_of
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.affinity import ANY, ANY_OR_FAIL, BY_NAME, kind_of
from slicewright.rehearsal.clouds.gcp.gke.nodes import counts_of
from slicewright.rehearsal.clouds.gcp.state import NODE_POOLS, NodePoolRecord

_PATH = re.compile(
    r"(?:projects/(?P<project>[^/]+)/reservations/)?(?P<name>[^/]+)"
    r"(?:/reservationBlocks/(?P<block>[^/]+)(?:/reservationSubBlocks/(?P<sub_block>[^/]+))?)?"
)


def check_reserved(
    context: Context, key: str, config: JsonObject, added: Mapping[str, int]
) -> None:
    """Raises CloudError where the reservation does not exist, or lacks machines.

    key: the pool's full resource name. added: zone -> nodes that the pool is to have more.
    """
    listed, kind = account_of(context).reservations, kind_of(config)
    if listed is None or kind not in (BY_NAME, ANY_OR_FAIL):
        return
    users = [_Use(item) for _, item in context.store.items(NODE_POOLS)]
    project, pool, machine = key.split("/")[1], key.rpartition("/")[2], config["machineType"]
    for zone, nodes in added.items():
        if kind == BY_NAME:
            value = config["reservationAffinity"]["values"][0]
            free = _free_by_name(listed, users, project, value, zone, machine)
            subject = f'specific reservation "{value}"'
            if free is None:
                raise google_error(
                    404,
                    f'Google Compute Engine: reservation "{value}" not found for node pool '
                    f'"{pool}" at zone "{zone}".',
                )
        else:
            free = _free_of_any(listed, users, project, zone, machine)
            subject = "any matching reservation"
        if nodes > free:
            raise google_error(
                429,
                "Reservation does not have enough resources for the request: "
                f'{subject} is insufficient for node pool "{pool}" at zone "{zone}": required '
                f"{nodes} and short of {nodes - free} VM count of machine type {machine}.",
            )


def reservation_of(context: Context, owner: str, zone: str, name: str) -> JsonObject | None:
    """As Compute Engine shows it; None where there is none. Raises CloudError.

    Machines of pools that name no reservation are not counted as in use.
    """
    listed = account_of(context).reservations
    if listed is None:
        raise not_simulated(
            "Without `reservations` in google-account.json there is one for whatever a node pool "
            "asks for, and it is not known which."
        )
    users = [_Use(item) for _, item in context.store.items(NODE_POOLS)]
    reservation = next(
        (r for r in listed if (r.name, r.zone, r.project or owner) == (name, zone, owner)), None
    )
    if reservation is None:
        return None
    used = sum(
        use.nodes(zone, reservation.machine_type)
        for use in users
        if kind_of(use.config) == BY_NAME
        and _parts_of(use.config, use.project, owner, name) is not None
    )
    shared: JsonObject = {"shareType": "LOCAL"}
    if reservation.shared_with:
        projects = {other: {"projectId": other} for other in reservation.shared_with}
        shared = {"shareType": "SPECIFIC_PROJECTS", "projectMap": projects}
    return {
        "name": name,
        "status": "READY",
        "specificReservationRequired": reservation.specific,
        "specificReservation": {
            "count": str(reservation.count),
            "inUseCount": str(min(reservation.taken + used, reservation.count)),
            "instanceProperties": {"machineType": reservation.machine_type},
        },
        "shareSettings": shared,
    }


@dataclass(frozen=True)
class _Use:
    """A pool, as what it takes of reservations."""

    item: NodePoolRecord

    @property
    def config(self) -> JsonObject:
        config: JsonObject = self.item["pool"]["config"]
        return config

    @property
    def project(self) -> str:
        return self.item["key"].split("/")[1]

    def nodes(self, zone: str, machine: str) -> int:
        if self.config["machineType"] != machine:
            return 0
        present = sum(node["location"] == zone for node in self.item["nodes"])
        return max(present, counts_of(self.item).get(zone, 0))


def _free_by_name(
    listed: Sequence[Reservation],
    users: Sequence[_Use],
    project: str,
    value: str,
    zone: str,
    machine: str,
) -> int | None:
    """Machines that are left; None where there is no such reservation."""
    path = _PATH.fullmatch(value)
    if path is None:
        return None
    owner = path["project"] or project
    if path["block"] and owner != project:
        raise google_error(400, "Shared extended reservations are not supported by GKE.")
    reservation = next(
        (
            r
            for r in listed
            if (r.name, r.zone, r.project or project) == (path["name"], zone, owner)
            and (owner == project or project in r.shared_with)
        ),
        None,
    )
    if reservation is None or reservation.machines(path["block"], path["sub_block"]) is None:
        return None
    if reservation.machine_type != machine or not reservation.specific:
        return 0
    used = [
        (parts, use.nodes(zone, machine))
        for use in users
        if kind_of(use.config) == BY_NAME
        and (parts := _parts_of(use.config, use.project, owner, reservation.name)) is not None
    ]
    requested = (path["block"], path["sub_block"])
    free = reservation.count - reservation.taken - sum(n for _, n in used)
    for depth in (1, 2):
        if requested[depth - 1] is not None:
            inside = sum(n for parts, n in used if parts[:depth] == requested[:depth])
            free = min(free, (reservation.machines(*_cut(requested, depth)) or 0) - inside)
    return max(free, 0)


_Parts = tuple[str | None, str | None]
"""Block and sub-block that a pool names; None: any."""


def _cut(parts: _Parts, depth: int) -> _Parts:
    return (parts[0], parts[1] if depth == 2 else None)


def _parts_of(config: JsonObject, project: str, owner: str, name: str) -> _Parts | None:
    """None where the pool names another reservation."""
    path = _PATH.fullmatch(config["reservationAffinity"]["values"][0])
    if path is None or (path["project"] or project, path["name"]) != (owner, name):
        return None
    return (path["block"], path["sub_block"])


def _free_of_any(
    listed: Sequence[Reservation], users: Sequence[_Use], project: str, zone: str, machine: str
) -> int:
    """Machines left in all the reservations that nodes may use without naming one.

    Pools that say nothing use them too: so do Compute Engine's instances by default.
    """
    total = sum(
        r.count - r.taken
        for r in listed
        if not r.specific
        and (r.zone, r.machine_type) == (zone, machine)
        and (r.project in (None, project) or project in r.shared_with)
    )
    return max(total - sum(_unnamed(users, project, zone, machine)), 0)


def _unnamed(users: Iterable[_Use], project: str, zone: str, machine: str) -> Iterator[int]:
    for use in users:
        spot = use.config.get("spot") or use.config.get("preemptible")
        if use.project == project and kind_of(use.config) in (None, ANY, ANY_OR_FAIL) and not spot:
            yield use.nodes(zone, machine)
