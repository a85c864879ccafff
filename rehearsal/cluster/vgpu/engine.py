"""Differences between the two engines, as their device plugins know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.vgpu.cards import Card, Share, Sharing

Devices = Mapping[str, bool]
"""Device id -> whether it is healthy."""


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Annotations of a pod that the scheduler has placed."""

    to_allocate: str
    node: str
    time: str
    phase: str


@dataclass(frozen=True, kw_only=True)
class Engine:
    name: str
    keys: Keys
    counting: str
    """The resource that counts cards. Allocating it gives a container its cards."""
    devices: Callable[[Sequence[Card], Sharing], Mapping[str, Devices]]
    """Resource -> devices, as the kubelet gets them."""
    registration: Callable[[Sequence[Card], Sharing], Mapping[str, str]]
    """Annotations of the node."""
    decode: Callable[[str], list[list[Share]]]
    """An annotation of allocated devices -> shares of each container."""
    encode: Callable[[Sequence[Sequence[Share]]], str]
    sharing: Callable[[JsonObject], Sharing]
    """Settings of the plugin's ConfigMap."""
    lock: str = ""
    """Annotation by which the scheduler locks a node, which the plugin removes; empty for none."""
