"""The gcp stand-in over a simulated cloud in this process, driven as the engine drives it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.cloud.client import CloudClient
from rehearsal.cloud.cloud import Cloud
from rehearsal.cloud.paper_planes import PaperNodes, PaperPlanes
from rehearsal.cloud.server import Server
from rehearsal.engine.plugin import Difference, InitFailed, Properties
from rehearsal.gcp_provider.provider import GcpProvider

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
ACCOUNT = "gcp:serviceaccount/account:Account"
MEMBER = "gcp:projects/iAMMember:IAMMember"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"


class Resource:
    """One resource of a stack: what the engine keeps of it between operations."""

    def __init__(self, engine: Engine, kind: str, name: str, asked: Properties) -> None:
        self.engine = engine
        self.kind = kind
        self.name = name
        checked = engine.checked(kind, name, {}, asked)
        self.inputs = checked
        try:
            made = engine.provider.create("urn", kind, name, checked, 0, False)
            self.id, self.outputs, self.trouble = made.id, made.outputs, ()
        except InitFailed as e:
            self.id, self.outputs, self.trouble = e.id, e.outputs, e.reasons

    def plan(self, asked: Properties, ignore: tuple[str, ...] = ()) -> Difference:
        """What `up` with these inputs would do."""
        self.next = self.engine.checked(self.kind, self.name, self.inputs, asked)
        return self.engine.provider.diff("urn", self.kind, self.id, self.outputs, self.inputs, self.next, ignore)

    def update(self, asked: Properties) -> Difference:
        found = self.plan(asked)
        assert not found.replaces
        assert not any(k.endswith("replace") for k in (found.detailed or {}).values()), found.detailed
        arguments = ("urn", self.kind, self.id, self.outputs, self.inputs, self.next, 0, (), False)
        self.outputs = self.engine.provider.update(*arguments)
        self.inputs = self.next
        return found

    def refresh(self) -> Difference | None:
        """None: gone. The difference is the drift: from what was asked for to what is there."""
        found = self.engine.provider.read("urn", self.kind, self.id, self.outputs, self.inputs, 0)
        if found is None:
            return None
        return self.engine.provider.diff("urn", self.kind, self.id, found.outputs, self.inputs, found.inputs, ())

    def delete(self) -> None:
        self.engine.provider.delete("urn", self.kind, self.id, self.outputs, self.inputs, 0)


class Engine:
    """Makes resources through the provider."""

    def __init__(self, provider: GcpProvider, cloud: Cloud, environment: Path) -> None:
        self.provider = provider
        self.cloud = cloud
        self.environment = environment
        self.client = CloudClient(environment)
        self.made: list[Resource] = []
        self._seed = 0

    def checked(self, kind: str, name: str, olds: Properties, asked: Properties) -> Properties:
        self._seed += 1
        checked = self.provider.check("urn", kind, name, olds, dict(asked), self._seed.to_bytes(4, "big"), None)
        assert not checked.failures, checked.failures
        return checked.inputs

    def failures(self, kind: str, asked: Properties) -> dict[str, str]:
        checked = self.provider.check("urn", kind, "x", {}, dict(asked), b"seed", None)
        return {f.property: f.reason for f in checked.failures}

    def make(self, kind: str, label: str, /, **asked: Any) -> Resource:
        resource = Resource(self, kind, label, asked)
        self.made.append(resource)
        return resource

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
        found = PaperNodes(self.environment / "clusters" / "main" / "nodes-on-paper").read()
        return [n for n in found if pool in (None, n["metadata"]["labels"]["cloud.google.com/gke-nodepool"])]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL", str(tmp_path))
    cloud = Cloud(tmp_path, PaperPlanes(tmp_path), ready_timeout_s=0.1)
    server = Server(tmp_path / "cloud.sock", cloud)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    provider = GcpProvider()
    provider.retry_pause_s = 0.01
    provider.configure({"gcp:config:project": "acme"}, {"region": "us-central1"})
    yield Engine(provider, cloud, tmp_path)
    server.shutdown()
    server.server_close()


@pytest.fixture
def h100() -> Properties:
    """The inputs of system S0's pool."""
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
