"""EKS pools with a launch template of their own: which have one, and what is in it."""

from __future__ import annotations

import base64
import email
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.rehearsal.clouds.aws.ec2.user_data import node_config
from tests.recorder import Made

KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2}}
node_pools:
- {{name: a, machine_type: p4d.24xlarge, nodes: {{count: 1}}, {pool}}}
"""
Record = Callable[..., list[Made]]


def made(record_cloud: Record, pool: str, kind: str) -> list[Mapping[str, Any]]:
    found = record_cloud("test", fleet=FLEET.format(pool=pool))
    return [m.inputs for m in found if m.type.endswith(kind) and m.name == "eks-a"]


@pytest.mark.parametrize(
    "pool",
    [
        "zones: [us-west-2b]",
        "disk: {size_gb: 300}",
        "disk: {encrypted: false}",
        "instance_tags: {}",
        "tags: {team: ml}",
        "capacity: spot",
    ],
)
def test_a_pool_that_needs_none_keeps_the_group_without_a_template(
    record_cloud: Record, pool: str
) -> None:
    """A template cannot be added to a node group: an upgrade of slicewright would replace it."""
    assert not made(record_cloud, pool, ":LaunchTemplate")
    (group,) = made(record_cloud, pool, ":NodeGroup")
    assert "launchTemplate" not in group
    assert group["diskSize"] in (100, 300)


@pytest.mark.parametrize(
    "pool",
    [
        "disk: {encrypted: true}",
        f'disk: {{kms_key: "{KEY}"}}',
        "instance_metadata: {}",
        "instance_store: raid0",
        "instance_tags: {team: ml}",
    ],
)
def test_the_disk_of_a_pool_with_a_launch_template_is_only_in_the_template(
    record_cloud: Record, pool: str
) -> None:
    """EKS refuses a disk size beside a launch template."""
    (template,) = made(record_cloud, pool, ":LaunchTemplate")
    (group,) = made(record_cloud, pool, ":NodeGroup")
    assert group["launchTemplate"] == {"id": "eks-a-id", "version": "1"}
    assert "diskSize" not in group
    (disk,) = template["blockDeviceMappings"]
    assert disk["deviceName"] == "/dev/xvda"
    assert disk["ebs"]["volumeSize"] == 100
    assert (disk["ebs"]["volumeType"], disk["ebs"]["encrypted"]) == ("gp3", "true")
    assert disk["ebs"].get("kmsKeyId") == (KEY if "kms" in pool else None)
    assert template["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }


def test_an_unencrypted_disk_and_more_hops_are_possible(record_cloud: Record) -> None:
    pool = "disk: {encrypted: false, size_gb: 500}, instance_metadata: {hop_limit: 2}"
    (template,) = made(record_cloud, pool, ":LaunchTemplate")
    (disk,) = template["blockDeviceMappings"]
    assert (disk["ebs"]["encrypted"], disk["ebs"]["volumeSize"]) == ("false", 500)
    assert template["metadataOptions"]["httpPutResponseHopLimit"] == 2


def test_tags_of_instances_are_on_their_disks_too(record_cloud: Record) -> None:
    (template,) = made(record_cloud, "instance_tags: {team: ml}", ":LaunchTemplate")
    assert template["tagSpecifications"] == [
        {"resourceType": "instance", "tags": {"team": "ml"}},
        {"resourceType": "volume", "tags": {"team": "ml"}},
    ]
    (template,) = made(record_cloud, "instance_metadata: {}", ":LaunchTemplate")
    assert "tagSpecifications" not in template


def test_the_user_data_is_one_node_config_that_nodeadm_reads(record_cloud: Record) -> None:
    (template,) = made(record_cloud, "instance_store: raid0", ":LaunchTemplate")
    message = email.message_from_bytes(base64.b64decode(template["userData"], validate=True))
    assert message.get_content_type() == "multipart/mixed"
    assert not message.defects
    (part,) = message.get_payload()
    assert part.get_content_type() == "application/node.eks.aws"
    assert yaml.safe_load(part.get_payload()) == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"instance": {"localStorage": {"strategy": "RAID0"}}},
    }
    assert node_config({"UserData": template["userData"]}).local_storage == "RAID0"


def test_user_data_is_omitted_if_nodeadm_needs_no_settings(record_cloud: Record) -> None:
    (template,) = made(record_cloud, "instance_metadata: {}", ":LaunchTemplate")
    assert "userData" not in template


CR = "cr-0123456789abcdef0"
GROUP = "arn:aws:resource-groups:us-west-2:111122223333:group/gpus"


@pytest.mark.parametrize(
    ("capacity", "specification"),
    [
        ("reservation", {"capacityReservationPreference": "open"}),
        (
            f"{{mode: reservation, reservation: {CR}}}",
            {"capacityReservationTarget": {"capacityReservationId": CR}},
        ),
        (
            f'{{mode: reservation, reservation: "{GROUP}"}}',
            {"capacityReservationTarget": {"capacityReservationResourceGroupArn": GROUP}},
        ),
    ],
)
def test_a_reservation_is_targeted_by_the_template(
    record_cloud: Record, capacity: str, specification: Mapping[str, Any]
) -> None:
    (template,) = made(record_cloud, f"capacity: {capacity}", ":LaunchTemplate")
    assert template["capacityReservationSpecification"] == specification
    assert {"instanceType", "instanceMarketOptions"}.isdisjoint(template)
    (group,) = made(record_cloud, f"capacity: {capacity}", ":NodeGroup")
    assert (group["capacityType"], group["instanceTypes"]) == ("ON_DEMAND", ["p4d.24xlarge"])


def test_a_capacity_block_has_its_machine_type_in_the_template_only(record_cloud: Record) -> None:
    pool = f"capacity: {{mode: capacity-block, reservation: {CR}}}"
    (template,) = made(record_cloud, pool, ":LaunchTemplate")
    assert template["instanceType"] == "p4d.24xlarge"
    assert template["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert template["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": CR}
    }
    (group,) = made(record_cloud, pool, ":NodeGroup")
    assert group["capacityType"] == "CAPACITY_BLOCK"
    assert "instanceTypes" not in group


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (
            f"capacity: {{mode: reservation, reservation: {CR}}}, zones: [us-west-2a, us-west-2b]",
            f"{CR} is in one zone, and nodes in others would not be launched",
        ),
        (f'disk: {{encrypted: false, kms_key: "{KEY}"}}', "encrypted: false leaves unencrypted"),
        (
            f'disk: {{kms_key: "{KEY.replace("us-west-2", "us-east-1")}"}}',
            "is a key of us-east-1 in partition aws, and the nodes are in us-west-2",
        ),
        (
            f'disk: {{kms_key: "{KEY.replace("arn:aws:", "arn:aws-cn:")}"}}',
            "partition aws-cn, and the nodes are in us-west-2 in partition aws",
        ),
        ("disk: {kms_key: alias/mine}", "is not the ARN of a KMS key"),
        (
            f"instance_tags: { ({f't{i}': 'x' for i in range(46)}) }",
            "46 tags are too many: AWS allows 50 on an instance, and EKS adds 5",
        ),
        ("instance_metadata: {hop_limit: 65}", "must be at most 64 hops"),
        ("instance_store: raid10", "raid0"),
    ],
)
def test_launch_template_settings_that_aws_refuses_are_refused(
    broken: Callable[[str], str], pool: str, said: str
) -> None:
    refused = broken(FLEET.format(pool=pool))
    assert said in refused
    assert " 1 problem," in refused


BLOCK = f"capacity: {{mode: capacity-block, reservation: {CR}}}"


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (f'disk: {{kms_key: "{KEY}"}}', "AWSServiceRoleForAutoScaling"),
        ("capacity: reservation", "if no open reservation matches"),
        (BLOCK, "`pulumi up` needs nodes {min: 0, max: 1}"),
        (f"{BLOCK}, labels: {{}}", "EKS updates the pool only while it has no node"),
    ],
)
def test_notes_name_further_needs_of_a_launch_template(pool: str, words: str) -> None:
    def notes(written: str) -> str:
        raw = yaml.safe_load(FLEET.format(pool=written))
        return "\n".join(plan.notes(plan.read(json.dumps(raw), stack_file.Source("test", raw))))

    assert words in notes(pool)
    assert words not in notes("labels: {}")
