"""The gcp provider over a simulated cloud in this process, called as the engine calls it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.engine.requests import ConfigureRequest
from slicewright.rehearsal.plugins.providers.gcp.provider import GcpProvider
from tests.rehearsal.plugins.bridge.engine import Engine, Resource, cloud_in

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
ACCOUNT = "gcp:serviceaccount/account:Account"
MEMBER = "gcp:projects/iAMMember:IAMMember"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"


class GcpEngine(Engine):
    def base(self) -> Resource:
        """Network and cluster, without its default pool."""
        network = self.make(NETWORK, "net", autoCreateSubnetworks=False)
        subnetwork = self.make(SUBNETWORK, "sub", network=network.id, ipCidrRange="10.0.0.0/20")
        return self.make(
            CLUSTER,
            "main",
            name="main",
            network=network.id,
            subnetwork=subnetwork.id,
            removeDefaultNodePool=True,
            initialNodeCount=1,
            deletionProtection=False,
        )

    def nodes(self, pool: str | None = None) -> list[dict[str, Any]]:
        found = self.nodes_of("main")
        return [
            n
            for n in found
            if pool in (None, n["metadata"]["labels"]["cloud.google.com/gke-nodepool"])
        ]


@pytest.fixture
def engine(
    clouds_over_http: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GcpEngine]:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL", str(tmp_path))
    provider = GcpProvider()
    provider.retry_pause_s = 0.01
    configured = ConfigureRequest(
        variables={"gcp:config:project": "acme"}, inputs={"region": "us-central1"}
    )
    with cloud_in(tmp_path) as cloud:
        provider.configure(configured)
        yield GcpEngine(provider, cloud, tmp_path)


@pytest.fixture
def h100() -> Properties:
    """The inputs of system gke-h100's pool."""
    return {
        "cluster": "projects/acme/locations/us-central1/clusters/main",
        "name": "h100-partition-3g",
        "nodeCount": 1,
        "nodeLocations": ["us-central1-c"],
        "maxPodsPerNode": 64,
        "management": {"autoRepair": True, "autoUpgrade": True},
        "upgradeSettings": {"strategy": "SURGE", "maxSurge": 0, "maxUnavailable": 1},
        "nodeConfig": {
            "machineType": "a3-highgpu-8g",
            "spot": True,
            "preemptible": False,
            "diskType": "pd-ssd",
            "diskSizeGb": 2000,
            "imageType": "COS_CONTAINERD",
            "gvnic": {"enabled": True},
            "gcfsConfig": {"enabled": False},
            "loggingVariant": "DEFAULT",
            "ephemeralStorageLocalSsdConfig": {"localSsdCount": 16},
            "labels": {"role": "h100-standard"},
            "resourceLabels": {"team": "ml"},
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
            "guestAccelerators": [
                {
                    "type": "nvidia-h100-80gb",
                    "count": 8,
                    "gpuPartitionSize": "3g.40gb",
                    "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"},
                }
            ],
            "taints": [{"key": "nvidia/share", "value": "nvidia-mig", "effect": "NO_SCHEDULE"}],
        },
    }
