"""Checks one workload's request for fractions against the engine and the largest card."""

from __future__ import annotations

from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import CATALOG, Checked, Stated, refuse, rule
from slicewright.infra.plan.fractional.checks import HAMI, VOLCANO
from slicewright.infra.plan.model.fractional import Engine

_LEAST_MIB: Final = 256
"""Per card. Source: volcano-sh/volcano, mgpu device package."""


@rule("fractional-served-workload")
def check_settings(
    workload: stack_file.AnyWorkload,
    share: stack_file.FractionalRequest,
    path: stack_file.Path,
    engine: Engine,
    stated: Stated,
) -> Checked[None]:
    """Refuses settings that the engine does not have."""
    if not stated.has(("fractional", "provider")):
        return
    at = (*path, "gpu_share")
    if engine.provider != "hami":
        yield from _check_pod_settings(share, at, engine, stated)
    if engine.provider == "volcano":
        yield from _check_containers(workload, path, stated)
    if engine.provider == "vke" and not isinstance(workload, stack_file.Workload):
        yield refuse(
            at,
            "VKE is planned only, and this workload's pods would be created",
            "leave kind out, or write provider: hami or volcano",
            in_key=True,
        )


@rule("fractional-pod-settings")
def _check_pod_settings(
    share: stack_file.FractionalRequest, at: stack_file.Path, engine: Engine, stated: Stated
) -> Checked[None]:
    """Refuses settings of a pod that only HAMi has."""
    name = "Volcano" if engine.provider == "volcano" else "VKE"
    if share.priority is not None and stated.has((*at, "priority")):
        yield refuse(
            (*at, "priority"),
            f"{name} has no priority of containers on a card",
            "leave it out, or write provider: hami",
            HAMI,
            in_key=True,
        )
    for key in ("node_policy", "gpu_policy"):
        if getattr(share, key) is not None and stated.has((*at, key)):
            yield refuse(
                (*at, key),
                f"{name} has one policy for the whole scheduler, not for each pod",
                f"write fractional.{key}, or provider: hami",
                HAMI,
                in_key=True,
            )


@rule("fractional-containers")
def _check_containers(
    workload: stack_file.AnyWorkload, path: stack_file.Path, stated: Stated
) -> Checked[None]:
    if (
        isinstance(workload, stack_file.Workload)
        and workload.containers > 1
        and stated.has((*path, "containers"))
    ):
        yield refuse(
            (*path, "containers"),
            "Volcano counts several containers of a pod on one card once, and gives their memory "
            "away a second time",
            "write 1, or provider: hami",
            VOLCANO,
        )


@rule("fractional-request")
def check_request(
    request: stack_file.FractionalRequest,
    at: stack_file.Path,
    source: str,
    most_cards: int,
    card_mib: int | None,
) -> Checked[None]:
    """Proposed values satisfy the other rules too.

    most_cards: of one node. card_mib: memory of the largest card. None if it is unknown.
    """
    if request.memory is None and request.compute_percent is None:
        return
    if request.memory is None or request.compute_percent is None:
        missing = "memory" if request.memory is None else "compute_percent"
        yield refuse(
            (*at, missing),
            "is required: a share is of memory and of compute",
            "write both, or neither for whole cards",
        )
        return
    mib = stack_file.mebibytes(request.memory)
    yield from _check_compute(request.compute_percent, request.cards, mib, at, source, most_cards)
    yield from _check_card_memory(mib, request.cards, at, source, card_mib)


@rule("fractional-compute")
def _check_compute(
    percent: int, cards: int, mib: int, at: stack_file.Path, source: str, most_cards: int
) -> Checked[None]:
    if percent % cards:
        up = min(-(-percent // cards), 100) * cards
        yield refuse(
            (*at, "compute_percent"),
            f"{percent} % cannot be divided evenly among {cards} cards",
            f"write {up}",
            source,
        )
    elif percent // cards > 100:
        enough = range(-(-percent // 100), most_cards + 1)
        more = next(
            (n for n in enough if not percent % n and not mib % n and mib // n >= _LEAST_MIB), None
        )
        yield refuse(
            (*at, "compute_percent"),
            f"{percent} % on {cards} card{'s' if cards > 1 else ''} is {percent // cards} "
            "% of each; a card has 100",
            f"write {f'cards: {more}, or ' if more else ''}{100 * cards} or less",
            source,
        )


@rule("fractional-memory")
def _check_card_memory(
    mib: int, cards: int, at: stack_file.Path, source: str, card_mib: int | None
) -> Checked[None]:
    per_card = max(-(-mib // cards), _LEAST_MIB)
    per_card = per_card if card_mib is None else min(per_card, card_mib)
    if mib % cards:
        yield refuse(
            (*at, "memory"),
            f"{mib} MiB cannot be divided evenly among {cards} cards",
            f"write {per_card * cards}Mi",
            source,
        )
    elif mib // cards < _LEAST_MIB:
        yield refuse(
            (*at, "memory"),
            f"{mib // cards} MiB on each of {cards} cards is below the minimum of {_LEAST_MIB}",
            f"write {_LEAST_MIB * cards}Mi or more",
            source,
        )
    elif card_mib is not None and mib // cards > card_mib:
        yield refuse(
            (*at, "memory"),
            f"{mib // cards} MiB on each of {cards} cards; the largest card has {card_mib} MiB",
            f"write {card_mib * cards}Mi or less, or more cards",
            CATALOG,
        )
