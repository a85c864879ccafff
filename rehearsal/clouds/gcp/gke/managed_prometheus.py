"""The kinds of Managed Service for Prometheus in a cluster. Nothing is collected: collectors send
samples to Cloud Monitoring, which is not simulated.

The kinds are those of which a stack makes objects, as Google defines them, without descriptions.
Source: GoogleCloudPlatform/prometheus-engine v0.10.0, cmd/operator/deploy/crds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.node_api import NodeApi

_DIRECTORY: Final = Path(__file__).parent / "managed_collection"


def install_managed_collection(api: NodeApi, cluster: JsonObject) -> None:
    """Where it is enabled. What GKE does with them where it is turned off again is not simulated:
    they stay.
    """
    if cluster["monitoringConfig"]["managedPrometheusConfig"].get("enabled"):
        for definition in definitions():
            api.install("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)


def definitions() -> list[JsonObject]:
    """In order of their names."""
    return [json.loads(file.read_text()) for file in sorted(_DIRECTORY.glob("*.json"))]
