"""Pools with EFA through the real engine, against what EC2 and EKS accept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import CloudEngine, cloud_engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[CloudEngine]:
    with cloud_engine(tmp_path_factory.mktemp("efa"), toolchain) as engine:
        yield engine


def fleet(**pool: Any) -> dict[str, Any]:
    return {
        "cloud": "eks",
        "cluster": {
            "name": "c",
            "region": "us-west-2",
            "zones": ["us-west-2a", "us-west-2b"],
            "network": "private",
        },
        "node_pools": [
            {
                "name": "a",
                "machine_type": "p4d.24xlarge",
                "nodes": {"count": 1},
                "zones": ["us-west-2b"],
                "instance_metadata": {},
                **pool,
            }
        ],
    }


def test_efa_is_a_new_version_of_the_template_in_the_clusters_security_group(
    engine: CloudEngine,
) -> None:
    engine.deploy(fleet())
    before, nodes = engine.group("c", "a"), engine.provider_ids("c", "a")
    engine.deploy(fleet(efa=True))
    found = engine.group("c", "a")
    assert found["nodegroupArn"] == before["nodegroupArn"]
    assert found["launchTemplate"]["version"] == "2"
    assert not engine.provider_ids("c", "a") & nodes
    (version,) = engine.cloud.call(
        "ec2",
        "DescribeLaunchTemplateVersions",
        {"region": "us-west-2"},
        {"LaunchTemplateId": found["launchTemplate"]["id"], "Versions": ["2"]},
    )["LaunchTemplateVersions"]
    interfaces = version["LaunchTemplateData"]["NetworkInterfaces"]
    cluster = engine.ask("DescribeCluster", name="c")["cluster"]["resourcesVpcConfig"]
    assert len(interfaces) == 5
    for interface in interfaces:
        assert interface["Groups"] == [cluster["clusterSecurityGroupId"]]
        assert interface["DeleteOnTermination"] is True
    engine.assert_settled(fleet(efa=True))


def test_destroy_leaves_nothing(engine: CloudEngine) -> None:
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}
