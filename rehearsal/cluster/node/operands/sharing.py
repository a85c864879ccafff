"""The part of the device plugin's config file that shares devices by time-slicing.

Source: NVIDIA/k8s-device-plugin v0.19.0, api/config/v1/{sharing,replicas}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml


class NotSimulated(Exception):
    """The config asks for what the simulation does not do; the message says what."""


@dataclass(frozen=True, kw_only=True)
class Replicated:
    """How one resource is shared."""

    replicas: int
    advertised: str
    """The resource's name on the node."""
    is_renamed: bool


Sharing = Mapping[str, Replicated]
"""By the name that the resource has without sharing; what is not there is exclusive."""


def parse(config: str) -> Sharing:
    """Raises NotSimulated, and ValueError for a file of another form."""
    try:
        sharing = (yaml.safe_load(config) or {}).get("sharing") or {}
        if sharing.get("mps"):
            raise NotSimulated("MPS needs NVIDIA's control daemon, which is not simulated")
        sliced = sharing.get("timeSlicing") or {}
        return {
            str(one["name"]): _replicated(one, rename=bool(sliced.get("renameByDefault")))
            for one in sliced.get("resources") or ()
        }
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as e:
        raise ValueError(f"not a config file of the device plugin: {e}") from e


def _replicated(resource: Mapping[str, object], *, rename: bool) -> Replicated:
    name = str(resource["name"])
    own = resource.get("rename") or (f"{name}.shared" if rename else "")
    return Replicated(
        replicas=int(str(resource["replicas"])),
        advertised=str(own or name),
        is_renamed=bool(own),
    )
