"""Keys of node labels: which of them the fleet controller gives back to an existing node. Pure.

A note on the node lists the labels that the controller has set there, and an annotation can be
forged. So the note is believed only about keys that a pool is known to set. Labels in Kubernetes'
own domains are never among them. `node-restriction.kubernetes.io/`, above all, keeps the nodes of
tenants apart, because no kubelet may change it: the controller must not change it on a kubelet's
word.
"""

from __future__ import annotations

from typing import Final

from slicewright.apis.names import MIG_CONFIG_LABEL, MIG_STATE_LABEL, POOL_LABEL

PLUGIN_CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
"""Selects a node's device plugin config. Source: NVIDIA/k8s-device-plugin, config-manager."""
ALWAYS_BROUGHT: Final = frozenset({POOL_LABEL, PLUGIN_CONFIG_LABEL})
"""Keys that the program itself sets for pools, independently of the stack file."""
MOST_KEYS: Final = 256
"""Number of keys that a pool's status remembers."""
_OF_KUBERNETES: Final = (".kubernetes.io", ".k8s.io")


def is_of_kubernetes(key: str) -> bool:
    """True if the key belongs to a domain that Kubernetes reserves for itself.

    Source: kubernetes.io, "Labels and Selectors", syntax and character set.
    """
    prefix = key.rpartition("/")[0]
    return f".{prefix}".endswith(_OF_KUBERNETES)


def may_be_brought(key: str) -> bool:
    """True if the controller may have set a label with this key on a node."""
    return key not in (MIG_CONFIG_LABEL, MIG_STATE_LABEL) and not is_of_kubernetes(key)
