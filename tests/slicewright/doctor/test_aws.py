"""`slicewright doctor` against the simulated AWS with one thing wrong."""

from __future__ import annotations

import json

import pytest

from slicewright.exit_codes import CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.aws.eks.checks import default_release
from slicewright.rehearsal.clouds.core.errors import CloudError
from tests.rehearsal.clouds.aws.test_pod_identities import associate, make_role
from tests.rehearsal.clouds.conftest import Aws
from tests.slicewright.doctor.conftest import Doctor


def test_an_ordinary_account_would_refuse_nothing(doctor: Doctor) -> None:
    code, said = doctor("eks-a100")
    assert code == VERIFIED, said
    assert "0 would fail, 0 could not be checked, 18 ok" in said
    assert "p4d.24xlarge for pool demo-gpu-workers: offered in eu-west-1a" in said


def test_doctor_only_reads_an_aws_account(doctor: Doctor) -> None:
    doctor("eks-a100")
    log = (doctor.environment / "log" / "cloud-calls.jsonl").read_text().splitlines()
    called = {json.loads(line)["operation"] for line in log}
    assert called
    assert all(name.startswith(("Describe", "Get", "Simulate")) for name in called)
    assert doctor.cloud.inventory() == {}


def test_a_new_accounts_quota_is_named_with_the_command_that_raises_it(doctor: Doctor) -> None:
    write_account(doctor.environment, **{**PROMPT, "vcpus": {"L-417A185B": 0}})
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert "quota L-417A185B (Running On-Demand P instances) in eu-west-1: 0 vCPU" in said
    assert "--quota-code L-417A185B --desired-value 96 --region eu-west-1" in said


def test_the_usage_of_others_is_subtracted_from_the_quota(doctor: Doctor) -> None:
    write_account(doctor.environment, **{**PROMPT, "running": {"p4d.24xlarge": 16}})
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert "1536 vCPU, 1536 used by others; the stack's nodes need 96" in said
    assert "--quota-code L-417A185B --desired-value 1632 --region eu-west-1" in said


def test_nodes_of_other_clusters_count_as_well(doctor: Doctor) -> None:
    aws = Aws(doctor.cloud, doctor.environment)
    aws.make_cluster()
    sizes = {"minSize": 3, "desiredSize": 3, "maxSize": 3}
    aws.make_group(instanceTypes=["m7i.large"], scalingConfig=sizes)
    vcpus = {"L-417A185B": 1536, "L-1216C47A": 8}
    write_account(doctor.environment, **{**PROMPT, "vcpus": vcpus})
    code, said = doctor("eks-a100")
    assert code == VERIFIED, said
    assert "8 vCPU, 6 used by others; the stack's nodes need 2" in said
    write_account(doctor.environment, **{**PROMPT, "vcpus": {**vcpus, "L-1216C47A": 7}})
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED, said
    assert "1 would fail, 0 could not be checked" in said


def test_an_account_with_as_many_vpcs_as_it_may_have_is_named(doctor: Doctor) -> None:
    aws = Aws(doctor.cloud, doctor.environment)
    for n in range(5):
        aws.call("ec2", "CreateVpc", CidrBlock=f"10.{n}.0.0/16")
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert "5, 5 in use; the stack creates 1" in said
    with pytest.raises(CloudError, match="The maximum number of VPCs has been reached"):
        aws.call("ec2", "CreateVpc", CidrBlock="10.5.0.0/16")


def test_more_node_groups_than_a_cluster_may_have_are_named(doctor: Doctor) -> None:
    account = {**PROMPT, "node_groups": 2}
    write_account(doctor.environment, **account)
    aws = existing_cluster(doctor)
    aws.make_group(nodegroupName="other")
    code, said = doctor("eks-a100", THERE)
    assert code == NOT_VERIFIED, said
    assert "1 would fail, 0 could not be checked" in said
    assert (
        "per cluster) in eu-west-1: 2; the stack has 2 node groups, and the cluster 1 others"
        in said
    )
    assert "--service-code eks --quota-code L-6D54EA21 --desired-value 3" in said


def test_a_zone_without_room_for_a_nat_gateway_is_named(doctor: Doctor) -> None:
    private = ("name: p4d-cluster", "name: p4d-cluster\n      network: private")
    write_account(doctor.environment, **{**PROMPT, "nat_gateways_per_zone": 1})
    code, said = doctor("eks-a100", private)
    assert code == VERIFIED, said
    aws = Aws(doctor.cloud, doctor.environment)
    aws.network()
    address = aws.call("ec2", "AllocateAddress", Domain="vpc")["AllocationId"]
    aws.call("ec2", "CreateNatGateway", SubnetId=aws.subnets[0], AllocationId=address)
    assert doctor.cloud.tasks.wait(60)
    code, said = doctor("eks-a100", private)
    assert code == NOT_VERIFIED, said
    assert "1 would fail, 0 could not be checked" in said
    assert "per Availability Zone) in eu-west-1: 1; 1 are in eu-west-1a" in said
    assert "--service-code vpc --quota-code L-FE5A380F --desired-value 2" in said


def test_a_zone_without_the_machine_is_named_although_only_the_account_knows_it(
    doctor: Doctor,
) -> None:
    """By name: which zone eu-west-1a is differs from account to account."""
    swapped = {"eu-west-1a": "euw1-az1", "eu-west-1c": "euw1-az2"}
    write_account(doctor.environment, **{**PROMPT, "zones": swapped})
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert "p4d.24xlarge for pool demo-gpu-workers: not offered in eu-west-1a" in said
    assert "write eu-west-1c as the pool's zones" in said


def test_a_cluster_of_that_name_is_named(doctor: Doctor) -> None:
    Aws(doctor.cloud, doctor.environment).make_cluster()
    code, said = doctor("eks-a100", ("name: p4d-cluster", "name: p4d"))
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert "cluster p4d in eu-west-1: already exists" in said


@pytest.mark.parametrize(
    ("method", "right", "reason"),
    [
        ("ec2.DescribeAvailabilityZones", "ec2:DescribeAvailabilityZones", "UnauthorizedOperation"),
        (
            "ec2.DescribeInstanceTypeOfferings",
            "ec2:DescribeInstanceTypeOfferings",
            "UnauthorizedOperation",
        ),
        (
            "service-quotas.GetServiceQuota",
            "servicequotas:GetServiceQuota",
            "AccessDeniedException",
        ),
        ("eks.DescribeCluster", "eks:DescribeCluster", "AccessDeniedException"),
    ],
)
def test_a_right_that_is_missing_is_named_and_nothing_is_taken_for_passed(
    doctor: Doctor, method: str, right: str, reason: str
) -> None:
    fault = {"fault": "api-error", "method": method, "code": 403, "status": reason}
    (doctor.environment / "faults.json").write_text(json.dumps([fault]))
    code, said = doctor("eks-a100")
    assert code == CANNOT_RUN
    assert "0 would fail" in said
    assert f"could not be checked: the right {right} is missing" in said
    assert f"ask an administrator to allow {right}" in said


def test_a_region_that_is_not_enabled_is_named(doctor: Doctor) -> None:
    fault = {
        "fault": "api-error",
        "method": "ec2.DescribeAvailabilityZones",
        "code": 401,
        "status": "AuthFailure",
    }
    (doctor.environment / "faults.json").write_text(json.dumps([fault]))
    code, said = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert "region eu-west-1: is not enabled in account" in said
    assert "aws account enable-region --region-name eu-west-1" in said


def test_without_credentials_the_one_message_says_how_to_log_in(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    code, said = doctor("eks-a100")
    assert code == CANNOT_RUN
    assert said.startswith("slicewright doctor: no AWS credentials were found; run `aws sso login`")
    assert said.count("\n") == 1


def test_keys_that_aws_refuses_are_one_message(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWRONG")
    code, said = doctor("eks-a100")
    assert code == CANNOT_RUN
    assert said.startswith("slicewright doctor: AWS refuses the credentials: InvalidClientTokenId")
    assert "aws sso login" in said


def test_a_refusal_of_another_kind_is_repeated_and_is_no_pass(doctor: Doctor) -> None:
    fault = {"fault": "api-error", "method": "eks.DescribeCluster", "code": 403}
    fault |= {"status": "UnrecognizedClientException", "message": "\x1b[31mred"}
    (doctor.environment / "faults.json").write_text(json.dumps([fault]))
    code, said = doctor("eks-a100")
    assert code == CANNOT_RUN
    assert "cluster p4d-cluster in eu-west-1: could not be checked: UnrecognizedClient" in said
    assert "\x1b" not in said


def test_a_profile_that_does_not_exist_is_one_message(doctor: Doctor) -> None:
    code, said = doctor("eks-a100", ("config:\n", "config:\n  aws:profile: nope\n"))
    assert code == CANNOT_RUN
    assert said.startswith("slicewright doctor: AWS credentials cannot be used: ")
    assert "nope" in said
    assert said.count("\n") == 1


def existing(doctor: Doctor, *, hostnames: bool = True) -> tuple[Aws, tuple[str, str]]:
    """A network of its own in the account, and the stack file's change to use it."""
    aws = Aws(doctor.cloud, doctor.environment)
    aws.network()
    aws.call("ec2", "ModifyVpcAttribute", VpcId=aws.vpc, EnableDnsHostnames={"Value": hostnames})
    network = f"{{mode: existing, subnets: [{', '.join(aws.subnets)}]}}"
    return aws, ("name: p4d-cluster", f"name: p4d-cluster\n      network: {network}")


def test_subnets_that_exist_and_fit_are_shown_with_their_zones(doctor: Doctor) -> None:
    aws, change = existing(doctor)
    code, said = doctor("eks-a100", change)
    assert code == VERIFIED, said
    assert f"subnets of cluster.network: {aws.subnets[0]} in eu-west-1a" in said
    assert "VPCs per Region" not in said


def test_a_vpc_without_host_names_is_named_with_the_command_that_mends_it(doctor: Doctor) -> None:
    aws, change = existing(doctor, hostnames=False)
    code, said = doctor("eks-a100", change)
    assert code == NOT_VERIFIED
    assert f"aws ec2 modify-vpc-attribute --vpc-id {aws.vpc} --enable-dns-hostnames" in said
    assert "1 would fail" in said


def test_a_subnet_with_fewer_addresses_than_nodes_is_named(doctor: Doctor) -> None:
    aws, (old, new) = existing(doctor)
    asked = {"CidrBlock": "10.0.9.0/28", "AvailabilityZone": "eu-west-1a", "VpcId": aws.vpc}
    small = aws.call("ec2", "CreateSubnet", **asked)["Subnet"]["SubnetId"]
    (table, *_) = aws.call("ec2", "DescribeRouteTables")["RouteTables"]
    aws.call("ec2", "AssociateRouteTable", RouteTableId=table["RouteTableId"], SubnetId=small)
    network = (old, new.replace(aws.subnets[0], small))
    nodes = ("nodes: { count: 1 }", "nodes: { count: 12 }")
    code, said = doctor("eks-a100", network)
    assert code == VERIFIED, said
    code, said = doctor("eks-a100", network, nodes)
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert f"addresses for nodes in eu-west-1a: 11 are free in {small}" in said


def test_a_zone_without_a_subnet_and_a_missing_subnet_are_named(doctor: Doctor) -> None:
    aws, (old, new) = existing(doctor)
    code, said = doctor("eks-a100", (old, new.replace(f", {aws.subnets[1]}", "")))
    assert code == NOT_VERIFIED
    assert "none of them is in eu-west-1b, which the cluster or a pool uses" in said
    code, said = doctor("eks-a100", (old, new.replace(aws.subnets[1], "subnet-0123456789abcdef0")))
    assert code == NOT_VERIFIED
    assert "subnet-0123456789abcdef0: the account has no such subnet in eu-west-1" in said


def test_elastic_ips_that_are_all_taken_are_named(doctor: Doctor) -> None:
    private = ("name: p4d-cluster", "name: p4d-cluster\n      network: private")
    code, said = doctor("eks-a100", private)
    assert code == VERIFIED, said
    aws = Aws(doctor.cloud, doctor.environment)
    for _ in range(5):
        aws.call("ec2", "AllocateAddress", Domain="vpc")
    code, said = doctor("eks-a100", private)
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert "5, 5 in use; the stack's NAT gateways need 1" in said
    assert "--quota-code L-0263D0A3 --desired-value 6 --region eu-west-1" in said


THERE = ("name: p4d-cluster", "name: p4d\n      existing: true")


def existing_cluster(doctor: Doctor) -> Aws:
    aws = Aws(doctor.cloud, doctor.environment)
    aws.make_cluster()
    aws.call("ec2", "ModifyVpcAttribute", VpcId=aws.vpc, EnableDnsHostnames={"Value": True})
    return aws


def test_the_subnets_of_an_existing_cluster_are_read_from_it(doctor: Doctor) -> None:
    aws = existing_cluster(doctor)
    code, said = doctor("eks-a100", THERE)
    assert code == VERIFIED, said
    assert "cluster p4d in eu-west-1: exists, as the stack file says" in said
    assert f"subnets of cluster.network: {aws.subnets[0]} in eu-west-1a" in said
    other = ("partition: {", "zones: [eu-west-1c]\n        partition: {")
    code, said = doctor("eks-a100", THERE, other)
    assert code == NOT_VERIFIED
    assert "none of them is in eu-west-1c" in said


def test_a_node_group_of_another_stack_is_named(doctor: Doctor) -> None:
    """The system pool's name is the same in all stacks."""
    aws = existing_cluster(doctor)
    aws.make_group(nodegroupName="system")
    code, said = doctor("eks-a100", THERE)
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert "node group system of existing cluster p4d: already exists" in said
    assert "delete-nodegroup --cluster-name p4d --nodegroup-name system" in said


OPS = "arn:aws:iam::123456789012:role/ops"
ENTRIES = (
    f"access: {{entries: [{{principal: '{OPS}', policies: [{{name: AmazonEKSViewPolicy}}]}}]}}"
)


def test_a_cluster_that_takes_no_access_entries_is_named(doctor: Doctor) -> None:
    existing_cluster(doctor)
    code, said = doctor("eks-a100", (THERE[0], f"{THERE[1]}\n      {ENTRIES}"))
    assert code == NOT_VERIFIED, said
    assert "1 would fail" in said
    assert "authentication mode of existing cluster p4d in eu-west-1: is CONFIG_MAP" in said
    assert "--access-config authenticationMode=API_AND_CONFIG_MAP" in said


def test_principals_and_service_accounts_that_have_access_already_are_named(
    doctor: Doctor,
) -> None:
    aws = existing_cluster(doctor)
    both = {"authenticationMode": "API_AND_CONFIG_MAP"}
    aws.call("eks", "UpdateClusterConfig", name="p4d", accessConfig=both)
    assert doctor.cloud.tasks.wait(60)
    aws.role("ops", "ec2.amazonaws.com")
    pods = make_role(aws, "sts:AssumeRole", "sts:TagSession")
    made = associate(aws, pods, namespace="a", serviceAccount="b")
    aws.call("eks", "CreateAccessEntry", clusterName="p4d", principalArn=OPS)
    identities = (
        "pod_identities: [{namespace: a, service_account: b, role: "
        "'arn:aws:iam::123456789012:role/pods'}]"
    )
    change = (THERE[0], f"{THERE[1]}\n      {ENTRIES}\n      {identities}")
    code, said = doctor("eks-a100", change)
    assert code == NOT_VERIFIED, said
    assert "2 would fail, 0 could not be checked" in said
    assert f"access entry of {OPS} in existing cluster p4d: already exists" in said
    assert f"delete-access-entry --cluster-name p4d --principal-arn {OPS} --region eu-w" in said
    assert "pod identity of service account a/b in existing cluster p4d: already exists" in said
    assert f"--association-id {made['associationId']}" in said


def test_a_cluster_that_exists_and_is_not_reached_from_here_is_named(doctor: Doctor) -> None:
    existing_cluster(doctor)
    _, port = doctor.plane.getsockname()
    code, said = doctor("eks-a100", THERE)
    assert code == VERIFIED, said
    assert f"endpoint of existing cluster p4d: 127.0.0.1:{port} accepts connections" in said
    doctor.plane.close()
    code, said = doctor("eks-a100", THERE)
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert "endpoint of existing cluster p4d: no connection from here" in said


def test_rules_without_the_agent_that_they_wait_for_are_named(doctor: Doctor) -> None:
    aws = existing_cluster(doctor)
    rule = "{condition: AcceleratedHardwareReady, reason: NvidiaXID64Error, wait_minutes: 5, "
    pool = "ami_type: AL2023_x86_64_NVIDIA"
    repair = (pool, f"repair: {{rules: [{rule}action: reboot}}]}}\n        {pool}")
    code, said = doctor("eks-a100", THERE, repair)
    assert code == NOT_VERIFIED, said
    assert "1 would fail, 0 could not be checked" in said
    assert "add-on eks-node-monitoring-agent of existing cluster p4d: is not installed" in said
    assert "aws eks create-addon --cluster-name p4d --addon-name eks-node-monitoring" in said
    aws.call("eks", "CreateAddon", clusterName="p4d", addonName="eks-node-monitoring-agent")
    assert doctor.cloud.tasks.wait(60)
    code, said = doctor("eks-a100", THERE, repair)
    assert code == VERIFIED, said


def test_a_machine_image_for_another_kubernetes_than_the_clusters_is_named(doctor: Doctor) -> None:
    existing_cluster(doctor)
    pool = "ami_type: AL2023_x86_64_NVIDIA"
    release = (pool, f"release_version: {default_release('1.35')}\n        {pool}")
    code, said = doctor("eks-a100", THERE, release)
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert "Kubernetes of existing cluster p4d in eu-west-1: 1.36, but the machine image" in said
    assert "write a release for 1.36 as release_version" in said
