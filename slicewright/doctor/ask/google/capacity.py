"""Asks Google about the reservations and keys that a plan names. Every call only reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from slicewright.doctor.ask.google.session import GoogleSession
from slicewright.doctor.checks.gke.capacity import ReservationPath, Reservations, Reserved
from slicewright.doctor.checks.keys import Key, Keys
from slicewright.doctor.findings import Answer, NotAnswered


def ask_reservations(session: GoogleSession, paths: Iterable[ReservationPath]) -> Reservations:
    return {path: _reserved(session, path) for path in paths}


def ask_keys(session: GoogleSession, paths: Iterable[str]) -> Keys:
    return {path: _key(session, path) for path in paths}


def _reserved(session: GoogleSession, path: ReservationPath) -> Answer[Reserved | None]:
    reservation = session.get(
        "compute",
        f"projects/{quote(path.project, safe=':')}/zones/{path.zone}/reservations/{path.name}",
        "compute.reservations.get",
        project=path.project,
    )
    if reservation is None or isinstance(reservation, NotAnswered):
        return reservation
    held = reservation.get("specificReservation")
    if held is None:
        return NotAnswered(why="only reservations of single machines are supported")
    properties = held.get("instanceProperties", {})
    return Reserved(
        machine_type=properties.get("machineType", ""),
        gpus=_gpus(properties),
        count=int(held.get("count", 0)),
        in_use=int(held.get("inUseCount", 0)),
        specific=bool(reservation.get("specificReservationRequired")),
        ready=reservation.get("status") == "READY",
        shared_with=_shared_with(reservation.get("shareSettings", {})),
    )


def _gpus(properties: Mapping[str, Any]) -> tuple[str, int] | None:
    attached = properties.get("guestAccelerators", ())
    if not attached:
        return None
    (first, *_) = attached
    return first["acceleratorType"].rpartition("/")[2], int(first["acceleratorCount"])


def _shared_with(settings: Mapping[str, Any]) -> frozenset[str] | None:
    if settings.get("shareType") == "ORGANIZATION":
        return None
    return frozenset(settings.get("projectMap", ()))


def _key(session: GoogleSession, path: str) -> Answer[Key | None]:
    key = session.get(
        "cloudkms", quote(path, safe="/:"), "cloudkms.cryptoKeys.get", project=path.split("/")[1]
    )
    if key is None or isinstance(key, NotAnswered):
        return key
    return Key(
        encrypts=key.get("purpose") == "ENCRYPT_DECRYPT",
        state=key.get("primary", {}).get("state"),
    )
