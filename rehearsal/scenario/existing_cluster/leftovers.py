"""What the GPU operator and the Prometheus operator leave when their charts are uninstalled.

These are the only differences that a rehearsal does not hold against a stack after `destroy`; it
says how many they are. Each is the charts' own behaviour:

- its labels on nodes stay: NVIDIA/gpu-operator #1391, and the review of #2571 ("we don't remove
  labels during uninstallation"). NFD's and GPU feature discovery's do not: NFD's chart takes them
  back (kubernetes-sigs/node-feature-discovery, docs/deployment/uninstallation.md).
- where it installs the driver, so does its annotation on nodes that it upgrades them: it is removed
  only by switching that off (controllers/state_manager.go).
- the MIG layout stays on the GPUs, so what was ordered and what came of it stay on the node. With
  `on_destroy: {mig_layout: disable}` the GPUs are whole, which is the operator's default.
- an owner's Prometheus operator makes the ConfigMap of rule files again when rules come or go
  (prometheus-operator, pkg/prometheus/server/rules.go), with the contents that it had.
- Helm never deletes the CRDs of a chart. Source: Helm docs, "Custom Resource Definitions". The API
  server serves each kind's group as an APIService for as long.
"""

from __future__ import annotations

import re
from typing import Final

_PATTERNS: Final = (
    r"nodes/\S+: metadata\.labels\[nvidia\.com/gpu\.deploy\.[-a-z]+\] is new: '.*'",
    r"nodes/\S+: metadata\.labels\[nvidia\.com/gpu\.present\] is new: 'true'",
    r"nodes/\S+: metadata\.annotations\[nvidia\.com/gpu-driver-upgrade-enabled\] is new: 'true'",
    r"nodes/\S+: metadata\.labels\[nvidia\.com/mig\.config(\.state)?\] is new: '.*'",
    r"configmaps/\S+/prometheus-\S+-rulefiles-\d+: "
    r"metadata\.(creationTimestamp|uid) was '.*', is '.*'",
    r"customresourcedefinitions\.apiextensions\.k8s\.io/[a-z]+\."
    r"(nvidia\.com|nfd\.k8s-sigs\.io|monitoring\.coreos\.com) is new",
    r"apiservices\.apiregistration\.k8s\.io/v\w+\."
    r"(nvidia\.com|nfd\.k8s-sigs\.io|monitoring\.coreos\.com) is new",
)
_ANY: Final = re.compile("|".join(_PATTERNS))


def is_of_operator(difference: str) -> bool:
    """difference: a line of `record.compare`."""
    return _ANY.fullmatch(difference) is not None
