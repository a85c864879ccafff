"""EKS pools with Elastic Fabric Adapters: their network interfaces, and where they are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from tests.recorder import Made

FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2{cluster}}}
node_pools:
- {{name: a, machine_type: {machine}, nodes: {{count: 2}}, efa: true{pool}}}
"""
PRIVATE = ", network: private"
Record = Callable[..., list[Made]]


def written(machine: str, pool: str = "", cluster: str = PRIVATE) -> str:
    return FLEET.format(machine=machine, pool=pool and f", {pool}", cluster=cluster)


def made(record_cloud: Record, text: str, kind: str) -> list[Mapping[str, Any]]:
    found = record_cloud("test", fleet=text)
    return [m.inputs for m in found if m.type.endswith(kind) and m.name == "eks-a"]


def interfaces(record_cloud: Record, text: str) -> list[tuple[int, int, str]]:
    """Network card, device index and kind of each."""
    (template,) = made(record_cloud, text, ":LaunchTemplate")
    return [
        (i["networkCardIndex"], i["deviceIndex"], i["interfaceType"])
        for i in template["networkInterfaces"]
    ]


@pytest.mark.parametrize(
    ("machine", "cards"),
    [
        ("p4d.24xlarge", range(4)),
        ("p5.48xlarge", range(32)),
        ("p5en.48xlarge", range(16)),
        ("p6-b200.48xlarge", range(8)),
        ("p6-b300.48xlarge", range(1, 17)),
    ],
)
def test_each_efa_has_a_network_card_beside_the_nodes_own_interface(
    record_cloud: Record, machine: str, cards: range
) -> None:
    own, *efas = interfaces(record_cloud, written(machine))
    assert own == (0, 0, "interface")
    assert efas == [(card, 1 if card == 0 else 0, "efa-only") for card in cards]


def test_a_single_efa_is_the_nodes_own_interface_in_a_public_subnet_too(
    record_cloud: Record,
) -> None:
    assert interfaces(record_cloud, written("g6.8xlarge", cluster="")) == [(0, 0, "efa")]


def test_every_interface_is_in_the_clusters_security_group_and_goes_with_its_node(
    record_cloud: Record,
) -> None:
    """EKS gives a node that group by itself only where its template names no interfaces."""
    (template,) = made(record_cloud, written("p4d.24xlarge"), ":LaunchTemplate")
    for interface in template["networkInterfaces"]:
        assert interface["securityGroups"] == ["sg-eks"]
        assert interface["deleteOnTermination"] == "true"
        assert "subnetId" not in interface, "EKS refuses it in a node group's template"
    assert "vpcSecurityGroupIds" not in template
    (group,) = made(record_cloud, written("p4d.24xlarge"), ":NodeGroup")
    assert group["launchTemplate"]["id"] == "eks-a-id"


def test_a_template_names_interfaces_only_with_efa(record_cloud: Record) -> None:
    text = written("p4d.24xlarge", "instance_metadata: {}").replace("efa: true", "efa: false")
    (template,) = made(record_cloud, text, ":LaunchTemplate")
    assert "networkInterfaces" not in template


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (written("g6.xlarge"), "g6.xlarge has no EFA"),
        (written("g6e.8xlarge"), "g6e.8xlarge is not known to have one"),
        (
            written("p4d.24xlarge", cluster=""),
            "EC2 gives no public address to an instance that has several network interfaces, and "
            "p4d.24xlarge has 5 with EFA",
        ),
        (
            written("p4d.24xlarge", "zones: [us-west-2b, us-west-2c]"),
            "EFA traffic stays within a zone, and the pool has several",
        ),
        (
            written("g6.8xlarge", "other_machine_types: [g6.xlarge]"),
            "g6.xlarge has 0 EFAs, and g6.8xlarge 1 EFAs",
        ),
    ],
)
def test_efa_settings_that_aws_refuses_are_refused(
    broken: Callable[[str], str], text: str, said: str
) -> None:
    refused = broken(text)
    assert said in " ".join(refused.split())
    assert " 1 problem," in refused


def test_a_note_says_who_gives_efas_to_pods() -> None:
    def notes(text: str) -> str:
        raw = yaml.safe_load(text)
        return "\n".join(plan.notes(plan.read(json.dumps(raw), stack_file.Source("test", raw))))

    assert "and slicewright installs neither" in notes(written("p4d.24xlarge"))
    assert "EFA" not in notes(written("p4d.24xlarge").replace("efa: true", "efa: false"))
