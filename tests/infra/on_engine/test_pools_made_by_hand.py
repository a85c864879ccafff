"""Node pools that somebody made by the cloud's own API, with other labels and few settings, become
a stack's: in its own cluster and in one that exists.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import manifests, plan
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import PROJECT, REGION, CloudEngine, cloud_engine
from tests.infra.existing_vpc import ExistingCluster, ExistingVpc
from tests.infra.google_project import make_cluster, make_network
from tests.infra.on_engine.test_every_key import nodes_of
from tests.infra.plan.test_change_keys import planned

pytestmark = pytest.mark.long(
    "pools that the state does not have: tests/infra/on_engine/test_adoption.py"
)

CLUSTER = f"projects/{PROJECT}/locations/us-central1/clusters/c"
DEFAULT_ACCOUNT = "default"
"""GKE's name of Compute Engine's own service account."""


def pool(cloud: str, name: str) -> dict[str, Any]:
    """As a stack file says it."""
    if cloud == "eks":
        return {
            "name": name,
            "machine_type": "g6.xlarge",
            "zones": [f"{REGION}a"],
            "nodes": {"count": 1},
            "disk": {"size_gb": 20},  # EKS's own choice
        }
    return {
        "name": name,
        "machine_type": "a2-highgpu-1g",
        "zones": ["us-central1-c"],
        "nodes": {"count": 1},
        "partition": {"mode": "native", "profile": "1g.5gb"},
    }


def fleet(cloud: str, *pools: str, existing: bool) -> dict[str, Any]:
    where = {"gke": {"location": "us-central1"}, "eks": {"region": REGION}}[cloud]
    return {
        "cloud": cloud,
        "cluster": {"name": "c", **where, **({"existing": True} if existing else {})},
        "node_pools": [pool(cloud, name) for name in pools],
        **({"system_pool": {"zones": [f"{REGION}a"]}} if cloud == "eks" else {}),
    }


def make_by_hand(engine: CloudEngine, cloud: str, name: str, identity: str | None) -> None:
    """identity: role or service account of its nodes. None: that of the stack's other pools."""
    if cloud == "eks":
        like = engine.group("c", "one")
        engine.ask(
            "CreateNodegroup",
            clusterName="c",
            nodegroupName=name,
            nodeRole=identity or like["nodeRole"],
            subnets=like["subnets"],
            instanceTypes=["g6.xlarge"],
            amiType="AL2023_x86_64_NVIDIA",
            scalingConfig={"minSize": 1, "desiredSize": 1, "maxSize": 1},
            labels={"theirs": "x"},
        )
    else:
        pools, like = "projects.locations.clusters.nodePools", f"{CLUSTER}/nodePools/one"
        config = engine.cloud.call("container", f"{pools}.get", {"name": like}, {})["config"]
        same = ("machineType", "accelerators", "imageType", "oauthScopes", "diskSizeGb", "diskType")
        made = {
            "name": name,
            "initialNodeCount": 1,
            "locations": ["us-central1-c"],
            "config": {
                **{key: config[key] for key in same},
                "serviceAccount": identity or config["serviceAccount"],
                "gvnic": {"enabled": True},
                "labels": {"theirs": "x"},
            },
        }
        engine.cloud.call("container", f"{pools}.create", {"parent": CLUSTER}, {"nodePool": made})
    assert engine.cloud.tasks.wait(60)
    engine.cloud.look_around()


def adopted(engine: CloudEngine, asked: dict[str, Any], directory: Path, name: str) -> None:
    seen, file = directory / "preview.json", directory / "import.json"
    preview = engine.preview(asked, "--import-file", str(seen))
    assert preview.code == 0, preview.output
    found = planned(asked)
    assert not isinstance(found, plan.ExistingFleetPlan)
    file.write_text(
        json.dumps(manifests.import_file(found, PROJECT, json.loads(seen.read_text()), [name]))
    )
    imported = engine.import_resources(file)
    assert imported.code == 0, imported.output


@pytest.fixture(
    params=[("gke", False), ("gke", True), ("eks", False), ("eks", True)],
    ids=["gke", "gke-existing", "eks", "eks-existing"],
)
def stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> Iterator[tuple[CloudEngine, str, bool]]:
    cloud, existing = request.param
    with cloud_engine(tmp_path_factory.mktemp(cloud), toolchain) as engine:
        if existing and cloud == "eks":
            ExistingCluster(engine, ExistingVpc(engine))
        elif existing:
            make_network(engine.cloud, PROJECT, "us-central1")
            make_cluster(engine.cloud, PROJECT, "us-central1", "c")
        engine.deploy(fleet(cloud, "one", existing=existing))
        yield engine, cloud, existing


def test_a_pool_whose_nodes_have_the_stacks_identity_is_adopted_in_place(
    stack: tuple[CloudEngine, str, bool], tmp_path: Path
) -> None:
    engine, cloud, existing = stack
    make_by_hand(engine, cloud, "hand", None)
    before = nodes_of(engine, cloud)
    asked = fleet(cloud, "one", "hand", existing=existing)
    adopted(engine, asked, tmp_path, "hand")
    found = engine.operations(asked)
    looked = {"same", "read"}
    assert {name: what for name, whats in found.items() if (what := whats - looked)} == {
        f"{cloud}-hand": {"update"}
    }
    engine.deploy_and_settle(asked)
    now = nodes_of(engine, cloud)
    if cloud == "gke":
        # It recreates the nodes of a pool that gets other features and metadata settings.
        assert len(now.pop("hand")) == len(before.pop("hand")) == 1
    assert now == before
    labels = of_pool(engine, cloud, "hand")
    assert "theirs" not in labels
    assert labels["slicewright.io/pool"] == "hand"


def of_pool(engine: CloudEngine, cloud: str, name: str) -> Mapping[str, str]:
    """The labels of the pool itself."""
    if cloud == "eks":
        return dict(engine.group("c", name)["labels"])
    where = {"name": f"{CLUSTER}/nodePools/{name}"}
    pools = "projects.locations.clusters.nodePools"
    return dict(engine.cloud.call("container", f"{pools}.get", where, {})["config"]["labels"])


def test_a_pool_whose_nodes_have_another_identity_would_be_replaced(
    stack: tuple[CloudEngine, str, bool], tmp_path: Path
) -> None:
    engine, cloud, existing = stack
    if cloud == "eks":
        role = {"RoleName": "theirs", "AssumeRolePolicyDocument": TRUST}
        made = engine.cloud.call("aws-iam", "CreateRole", {"region": REGION}, role)
        identity, field = made["Role"]["Arn"], "nodeRoleArn"
        for policy in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"):
            attached = {"RoleName": "theirs", "PolicyArn": f"arn:aws:iam::aws:policy/{policy}"}
            engine.cloud.call("aws-iam", "AttachRolePolicy", {"region": REGION}, attached)
    else:
        identity, field = DEFAULT_ACCOUNT, "serviceAccount"
    make_by_hand(engine, cloud, "hand", identity)
    asked = fleet(cloud, "one", "hand", existing=existing)
    adopted(engine, asked, tmp_path, "hand")
    preview = engine.preview(asked, "--diff")
    assert preview.code == 0, preview.output
    assert "(replace)" in preview.output
    assert field in preview.output


TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "ec2.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)
