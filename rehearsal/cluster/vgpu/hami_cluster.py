"""What HAMi's scheduler knows of a cluster: its nodes' cards, and the shares of its pods. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from slicewright.kubeapi import JsonObject
from slicewright.node_agent.cluster.node import quantity
from slicewright.rehearsal.cluster.vgpu import hami
from slicewright.rehearsal.cluster.vgpu.hami_placement import CardUsage, Policy, Request

NODE_POLICY: Final = "hami.io/node-scheduler-policy"
CARD_POLICY: Final = "hami.io/gpu-scheduler-policy"
_FINISHED: Final = ("Succeeded", "Failed")
_ALL_MEMORY: Final = 100


def cards(node: JsonObject) -> list[CardUsage]:
    """The registered cards, unused. Empty for a node that no plugin has registered."""
    text = (node["metadata"].get("annotations") or {}).get(hami.REGISTER)
    return [
        CardUsage(
            uuid=card["id"],
            slots=card["count"],
            memory_mib=card["devmem"],
            compute_percent=card["devcore"],
            healthy=card["health"],
        )
        for card in (json.loads(text) if text else ())
    ]


def usage(
    nodes: Sequence[JsonObject], pods: Sequence[JsonObject], besides: str
) -> dict[str, list[CardUsage]]:
    """Node -> its cards with the shares of all pods. besides: the uid of a pod that is left out."""
    known = {node["metadata"]["name"]: cards(node) for node in nodes}
    for pod in pods:
        annotations = pod["metadata"].get("annotations") or {}
        on_node = known.get(annotations.get(hami.HAMI.keys.node, ""))
        if on_node is None or pod["metadata"]["uid"] == besides or _ended(pod):
            continue
        for share in (
            share
            for container in hami.decode(annotations.get(hami.ALLOCATED, ""))
            for share in container
        ):
            for i, card in enumerate(on_node):
                if card.uuid == share.uuid:
                    on_node[i] = card.with_share(share)
    return known


def _ended(pod: JsonObject) -> bool:
    return (pod.get("status") or {}).get("phase") in _FINISHED


def requests(pod: JsonObject) -> tuple[Request, ...]:
    """Of the containers that ask for cards, in their order; the others have no shares."""
    return tuple(_requests(pod["spec"]["containers"]))


def _requests(containers: Sequence[JsonObject]) -> Iterator[Request]:
    for container in containers:
        resources = container.get("resources") or {}
        limits: Mapping[str, str] = {
            **(resources.get("requests") or {}),
            **(resources.get("limits") or {}),
        }
        number = quantity(str(limits.get(hami.NUMBER, 0)))
        if not number:
            continue
        yield Request(
            cards=number,
            memory_mib=quantity(str(limits.get(hami.MEMORY, 0))),
            memory_percent=int(limits.get(hami.MEMORY_PERCENT, _ALL_MEMORY)),
            compute_percent=int(limits.get(hami.CORES, 0)),
        )


def asks_for_cards(pod: JsonObject) -> bool:
    """True also if the pod names only memory or compute: the webhook then adds one card."""
    names = {hami.NUMBER, hami.MEMORY, hami.MEMORY_PERCENT, hami.CORES}
    return any(
        names & set((container.get("resources") or {}).get("limits") or {})
        for container in pod["spec"]["containers"]
    )


def policy_of(pod: JsonObject, key: str, default: Policy) -> Policy:
    value = (pod["metadata"].get("annotations") or {}).get(key, "").strip()
    return cast(Policy, value) if value in ("binpack", "spread") else default
