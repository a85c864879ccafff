"""How a node config says which reserved machines its nodes use."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.gcp.errors import google_error

NAME_KEY = "compute.googleapis.com/reservation-name"
BY_NAME, ANY, ANY_OR_FAIL, NONE = (
    "SPECIFIC_RESERVATION",
    "ANY_RESERVATION",
    "ANY_RESERVATION_THEN_FAIL",
    "NO_RESERVATION",
)


def kind_of(config: JsonObject) -> str | None:
    """How the nodes use reservations; None where the pool leaves it to GKE."""
    kind = (config.get("reservationAffinity") or {}).get("consumeReservationType")
    return None if kind in (None, "UNSPECIFIED") else str(kind)


def check_affinity(config: JsonObject) -> None:
    """Raises CloudError where the fields contradict each other."""
    affinity, kind = config.get("reservationAffinity") or {}, kind_of(config)
    named = bool(affinity.get("key") or affinity.get("values"))
    if kind != BY_NAME and named:
        raise google_error(
            400, f"Reservation affinity {kind or 'UNSPECIFIED'} takes no key and no values."
        )
    if kind == BY_NAME and (
        affinity.get("key") != NAME_KEY or len(affinity.get("values") or ()) != 1
    ):
        raise google_error(
            400, f"Reservation affinity {BY_NAME} needs key {NAME_KEY} and exactly one value."
        )
    if kind not in (None, NONE) and (config.get("spot") or config.get("preemptible")):
        raise google_error(400, "Spot and preemptible nodes cannot use reservations.")
