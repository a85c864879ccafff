"""What NFD's worker finds on a node, as the GPU operator's chart configures it, and writes.

Of NFD's labels only those that the GPU operator reads. Sources: kubernetes-sigs/
node-feature-discovery v0.18.3, source/{pci,system,kernel}; NVIDIA/gpu-operator v26.7.0, values.yaml
(node-feature-discovery.worker.config).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from slicewright.kubeapi import ApiError, Client, JsonObject
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.cluster.node import os_release

_VERSION: Final = "nfd.k8s-sigs.io/v1alpha1"
OF_NODE: Final = "nfd.node.kubernetes.io/node-name"
"""The label that says of which node a NodeFeature object is."""
PREFIX: Final = "feature.node.kubernetes.io/"
_CLASSES: Final = ("02", "0200", "0207", "0300", "0302")
"""Beginnings of the PCI classes that the chart's worker looks for: network and display."""


def labels(devices: Iterable[tuple[str, str]], system: str, kernel: str = "") -> Mapping[str, str]:
    """devices: class and vendor of each PCI device, as in sysfs. system: /etc/os-release. kernel:
    its version.
    """
    found = {
        f"{PREFIX}pci-{vendor.removeprefix('0x')}.present": "true"
        for kind, vendor in devices
        if kind.removeprefix("0x").startswith(_CLASSES)
    }
    told = os_release.read(system)
    found |= {f"{PREFIX}system-os_release.{key}": told.get(key, "") for key in ("ID", "VERSION_ID")}
    found[f"{PREFIX}kernel-version.full"] = _label_value(kernel)
    return {name: value for name, value in found.items() if value}


def pci_devices(sys_directory: Path) -> Iterator[tuple[str, str]]:
    """Class and vendor of each."""
    for device in sorted((sys_directory / "bus/pci/devices").glob("*")):
        yield (device / "class").read_text().strip(), (device / "vendor").read_text().strip()


def feature_path(name: str | None, namespace: str | None) -> str:
    return path_of(_VERSION, "nodefeatures", name, namespace)


def node_feature(
    node: str, pod: JsonObject, labels: Mapping[str, str], *, prefix: str = ""
) -> JsonObject:
    """What NFD's worker writes, and GPU feature discovery with its prefix of the name. pod: its
    own; with it and its DaemonSet the object goes.
    """
    metadata = pod["metadata"]
    itself = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    owners = [
        {**owner, "blockOwnerDeletion": False} for owner in metadata.get("ownerReferences") or ()
    ]
    return {
        "apiVersion": _VERSION,
        "kind": "NodeFeature",
        "metadata": {
            "name": f"{prefix}{node}",
            "namespace": metadata["namespace"],
            "labels": {OF_NODE: node},
            "ownerReferences": [*owners, itself],
        },
        "spec": {"labels": dict(labels)},
    }


def publish(client: Client, wanted: JsonObject) -> None:
    """Creates the object, or replaces one that differs, as the programs do: their roles let them
    create and update, and not patch.

    Raises ApiError, Unreachable.
    """
    metadata = wanted["metadata"]
    path = feature_path(metadata["name"], metadata["namespace"])
    try:
        present = client.get(path)
    except ApiError as e:
        if e.status != 404:
            raise
        client.create(path.rpartition("/")[0], wanted)
        return
    if not is_as_wanted(present, wanted):
        version = {"resourceVersion": present["metadata"]["resourceVersion"]}
        client.replace(path, {**wanted, "metadata": {**metadata, **version}})


def is_as_wanted(present: JsonObject, wanted: JsonObject) -> bool:
    """Compares labels, and owners: these change when a node of the same name is made again, so
    NFD's master looks at them, too.
    """
    return bool(
        (present.get("spec") or {}).get("labels") == wanted["spec"]["labels"]
        and present["metadata"].get("ownerReferences") == wanted["metadata"]["ownerReferences"]
    )


def _label_value(kernel: str) -> str:
    """A kernel's version, of which NFD changes what a label may not hold: COS has `6.12.55+`."""
    return re.sub("[^-A-Za-z0-9_.]", "_", kernel).strip("-_.")
