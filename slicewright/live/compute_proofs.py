"""Summarizes the compute proofs of a pool's nodes, from the agents' reports. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slicewright.fleet_controller.objects.node import Node
from slicewright.live.views import FailedDevice, ProofView
from slicewright.telemetry.plain import shortened

_LONGEST_WORD = 96


def proof_view(nodes: Sequence[Node], reports: Mapping[str, Any]) -> ProofView:
    """Counts the proven nodes and their devices, and names the devices that did not compute."""
    proofs = {node.name: (reports.get(node.name) or {}).get("compute") or {} for node in nodes}
    proven = [name for name in proofs if proofs[name].get("outcome") == "computed"]
    rates = [
        device["readGBps"]
        for name in proven
        for device in proofs[name].get("devices") or ()
        if "readGBps" in device
    ]
    return ProofView(
        proven=len(proven),
        devices=sum(proofs[name].get("deviceCount", 0) for name in proven),
        read_gb_s=(min(rates), max(rates)) if rates else None,
        without=tuple(name for name in proofs if not proofs[name]),
        failed=tuple(_failed(proofs)),
    )


def _failed(proofs: Mapping[str, Any]) -> Iterator[FailedDevice]:
    for node, proof in proofs.items():
        for device in proof.get("devices") or ():
            if device["outcome"] != "computed":
                yield FailedDevice(
                    node=node,
                    uuid=device["uuid"],
                    outcome=device["outcome"],
                    error=shortened(device.get("error", ""), _LONGEST_WORD),
                )
