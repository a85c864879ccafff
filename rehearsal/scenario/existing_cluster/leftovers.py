"""What the GPU operator and the Prometheus operator leave when their charts are uninstalled.

These are the only differences that a rehearsal does not hold against a stack after `destroy`; it
says how many they are. Each is the charts' own behaviour:

- its labels on nodes stay: NVIDIA/gpu-operator #1391, and the review of #2571 ("we don't remove
  labels during uninstallation"). NFD's and GPU feature discovery's do not: NFD's chart takes them
  back (kubernetes-sigs/node-feature-discovery, docs/deployment/uninstallation.md).
- where it installs the driver, so does its annotation on nodes that it upgrades them: it is removed
  only by switching that off (controllers/state_manager.go).
- the device plugins of Volcano and HAMi leave the annotation with their cards on nodes
  (Project-HAMi/HAMi, pkg/device-plugin/nvidiadevice/nvinternal/plugin/register.go).
- the MIG layout stays on the GPUs, so what was ordered and what came of it stay on the node. With
  `on_destroy: {mig_layout: disable}` the GPUs are whole, which is the operator's default.
- an owner's Prometheus operator makes the ConfigMap of rule files again when rules come or go
  (prometheus-operator, pkg/prometheus/server/rules.go), with the contents that it had.
- Helm never deletes the CRDs of a chart. Source: Helm docs, "Custom Resource Definitions". The API
  server serves each kind's group as an APIService for as long.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

_PATTERNS: Final = (
    r"nodes/\S+: metadata\.labels\[nvidia\.com/gpu\.deploy\.[-a-z]+\] is new: '.*'",
    r"nodes/\S+: metadata\.labels\[nvidia\.com/gpu\.present\] is new: 'true'",
    r"nodes/\S+: metadata\.annotations\[nvidia\.com/gpu-driver-upgrade-enabled\] is new: 'true'",
    r"nodes/\S+: metadata\.annotations\[(volcano\.sh/node-vgpu|hami\.io/node-nvidia)-register\] "
    r"is new: '.*'",
    r"nodes/\S+: metadata\.labels\[nvidia\.com/mig\.config(\.state)?\] is new: '.*'",
    r"configmaps/\S+/prometheus-\S+-rulefiles-\d+: "
    r"metadata\.(creationTimestamp|uid) was '.*', is '.*'",
    r"customresourcedefinitions\.apiextensions\.k8s\.io/[a-z]+\."
    r"(nvidia\.com|nfd\.k8s-sigs\.io|monitoring\.coreos\.com) is new",
    r"apiservices\.apiregistration\.k8s\.io/v\w+\."
    r"(nvidia\.com|nfd\.k8s-sigs\.io|monitoring\.coreos\.com) is new",
)
_UNINSTALLED: Final = re.compile("|".join(_PATTERNS))
_LAYOUT: Final = re.compile(
    r"nodes/(?P<node>[^/:]+): metadata\.labels\[nvidia\.com/mig\.config\] was '.*', is '.*'"
)
_FEATURE: Final = re.compile(
    r"(nodes/(?P<node>[^/:]+): metadata"
    r"|nodefeatures\.nfd\.k8s-sigs\.io/[^/]+/nvidia-features-for-(?P<found_on>[^/:]+): spec)"
    r"\.labels\[nvidia\.com/(?P<label>(gpu|mig)[-.].*|gfd\.timestamp)\] (was|is) .*"
)
"""Labels of mig-manager and of GPU feature discovery, which hands them to NFD, too."""
_LOOKED: Final = "gfd.timestamp"
_CHANGED_OVER: Final = re.compile(
    r"(pods|controllerrevisions\.apps)/(?P<of_pod>[^/]+)/\S+ is (new|gone)"
    r"|controllerrevisions\.apps/(?P<of_revision>[^/]+)/\S+: revision was \d+, is \d+"
    r"|daemonsets\.apps/(?P<of_set>[^/]+)/\S+: metadata\.annotations"
    r"\[deprecated\.daemonset\.template\.generation\] was '\d+', is '\d+'"
)
"""What a DaemonSet's pods of other settings leave."""


def of_uninstalled(differences: Iterable[str]) -> frozenset[str]:
    """Of lines of `record.compare`: what an operator that was installed leaves."""
    return frozenset(line for line in differences if _UNINSTALLED.fullmatch(line))


def of_adopted(differences: Iterable[str], namespace: str) -> frozenset[str]:
    """Of lines of `record.compare`: what an operator that was there, and stays, has done meanwhile.

    Its DaemonSets have other pods since its settings changed. Where the pools' MIG layout stays on
    the GPUs of a node, the labels of mig-manager and feature discovery are those of that layout.
    namespace: the operator's.
    """
    lines = list(differences)
    kept = {found["node"] for line in lines if (found := _LAYOUT.fullmatch(line))}
    return frozenset(
        line for line in lines if _is_of_pods(line, namespace) or _is_of_gpus(line, kept)
    )


def _is_of_pods(line: str, namespace: str) -> bool:
    found = _CHANGED_OVER.fullmatch(line)
    return found is not None and namespace in found.groupdict().values()


def _is_of_gpus(line: str, kept: Collection[str]) -> bool:
    """kept: nodes whose layout stays."""
    found = _FEATURE.fullmatch(line)
    if found is None:
        return False
    return found["label"] == _LOOKED or (found["node"] or found["found_on"]) in kept
