"""What `slicewright rights --doctor` prints is what the questions of a doctor need, and no more."""

from __future__ import annotations

import json

import pytest

from slicewright import cli
from slicewright.doctor import read_rights
from slicewright.infra import plan
from slicewright.infra.plan import EksFleetPlan, GkeFleetPlan
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core import call_log
from slicewright.rehearsal.clouds.gcp.projects import project_of
from tests.rehearsal.clouds.conftest import Aws
from tests.slicewright.doctor.conftest import STACKS, Doctor

NAME = "name: p4d-cluster"
POOL = "ami_type: AL2023_x86_64_NVIDIA"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555"
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"
GROUP = "arn:aws:resource-groups:eu-west-1:123456789012:group/gpus"
SESSION = "arn:aws:sts::123456789012:assumed-role/deploy/ci"
_GOOGLE = {
    "serviceusage services.batchGet": "serviceusage.services.get",
    "compute projects.get": "compute.projects.get",
    "compute regions.get": "compute.regions.get",
    "compute machineTypes.get": "compute.machineTypes.get",
    "compute subnetworks.get": "compute.subnetworks.get",
    "compute reservations.get": "compute.reservations.get",
    "compute projects.getXpnHost": "compute.projects.get",
    "container projects.locations.getServerConfig": "container.clusters.list",
    "container projects.locations.clusters.get": "container.clusters.get",
    "iam projects.serviceAccounts.get": "iam.serviceAccounts.get",
    "orgpolicy projects.policies.getEffectivePolicy": "orgpolicy.policy.get",
    "cloudkms projects.locations.keyRings.cryptoKeys.get": "cloudkms.cryptoKeys.get",
}
"""Source: "IAM permissions" of each method in Google's REST references."""


def called(doctor: Doctor) -> set[str]:
    log = (doctor.environment / "log" / "cloud-calls.jsonl").read_text().splitlines()
    return {f"{one['service']} {one['operation']}" for one in map(json.loads, log)}


def as_action(call: str) -> str:
    service, _, operation = call.partition(" ")
    names = {"aws-iam": "iam", "service-quotas": "servicequotas"}
    return f"{names.get(service, service)}:{operation}"


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ((NAME, f"{NAME}\n      network: private\n      secrets_key: {KEY}"),),
        ((NAME, f"{NAME}\n      permissions_boundary: {BOUNDARY}"),),
        (
            (NAME, f'{NAME}\n      version: "1.35"'),
            (POOL, f"release_version: 1.35.5-20260714\n        {POOL}"),
            (
                "nodes: { count: 1 }",
                "nodes: { count: 1 }\n        capacity: {mode: reservation, "
                f"reservation: '{GROUP}'}}",
            ),
        ),
        ((NAME, "name: p4d\n      existing: true"),),
        (
            (
                NAME,
                "name: p4d\n      existing: true\n      access: {entries: [{principal: "
                "'arn:aws:iam::123456789012:role/ops', policies: [{name: "
                "AmazonEKSClusterAdminPolicy}]}]}\n      pod_identities: [{namespace: a, "
                "service_account: b, role: 'arn:aws:iam::123456789012:role/pods'}]",
            ),
        ),
        (
            (NAME, f"{NAME}\n      autoscaler: {{mode: karpenter, interruption_queue: q}}"),
            (POOL, "release_version: 1.36.0-20260714"),
            ("nodes: { count: 1 }", "nodes: {min: 0, max: 1}\n        capacity: spot"),
        ),
    ],
)
def test_the_actions_are_those_of_the_calls(
    doctor: Doctor, changes: tuple[tuple[str, str], ...]
) -> None:
    reserved = {"instance_type": "p4d.24xlarge", "zone": "euw1-az2", "count": 1, "groups": [GROUP]}
    account = {
        "caller": {"arn": SESSION},
        "reservations": {"cr-0123456789abcdef0": reserved},
    }
    write_account(doctor.environment, **{**PROMPT, **account})
    Aws(doctor.cloud, doctor.environment).make_cluster()
    (doctor.environment / "log" / "cloud-calls.jsonl").write_text("")
    doctor("eks-a100", *changes)
    fleet = plan.read_file(doctor.environment / "Pulumi.eks-a100.yaml")
    assert isinstance(fleet, EksFleetPlan)
    # The default is asked for where the account has no quota of its own, and everybody may ask who
    # they are.
    listed = {need.right for need in read_rights.needs(fleet)}
    assert listed - {"servicequotas:GetAWSDefaultServiceQuota"} == {
        as_action(call) for call in called(doctor)
    } - {"sts:GetCallerIdentity"}


KEY_PATH = "projects/acme-keys/locations/us-central1/keyRings/gke/cryptoKeys/disks"
NETWORK = "{vpc: net, subnet: sub, pods_range: pods, services_range: services}"


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (("location: us-central1", f"location: us-central1\n      kms_key: {KEY_PATH}"),),
        (
            (
                "location: us-central1",
                "location: us-central1\n      network: "
                + NETWORK.replace("vpc: net", "vpc: projects/host-net/global/networks/net"),
            ),
            ("capacity: spot", "capacity: {mode: reservation, reservation: week}"),
        ),
    ],
)
def test_the_permissions_are_those_of_the_calls(
    doctor: Doctor, changes: tuple[tuple[str, str], ...]
) -> None:
    doctor("gke-h100", ("slicewright-gke-h100", "acme"), *changes)
    fleet = plan.read_file(doctor.environment / "Pulumi.gke-h100.yaml")
    assert isinstance(fleet, GkeFleetPlan)
    asked = called(doctor) - {"cloudresourcemanager projects.testIamPermissions"}
    assert {need.right for need in read_rights.needs(fleet)} == {_GOOGLE[call] for call in asked}


def test_doctor_reads_only_the_subnet_of_a_host_project(doctor: Doctor) -> None:
    network = NETWORK.replace("vpc: net", "vpc: projects/host-net/global/networks/net")
    there = ("location: us-central1", f"location: us-central1\n      network: {network}")
    doctor("gke-h100", ("slicewright-gke-h100", "acme"), there)
    calls = call_log.read(doctor.environment)
    asked = {(project_of(c.parameters), f"{c.service} {c.operation}") for c in calls}
    assert {call for project, call in asked if project == "host-net"} == {"compute subnetworks.get"}


@pytest.mark.parametrize(
    ("stack", "kind"), [("gke-h100", "includedPermissions"), ("eks-a100", "Statement")]
)
def test_rights_for_the_doctor_are_a_separate_document(
    stack: str, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(STACKS.parent)
    assert cli.main(["rights", "-s", stack, "--doctor"]) == cli.VERIFIED
    document = json.loads(capsys.readouterr().out)
    assert document[kind]
    assert cli.main(["rights", "-s", stack, "--doctor", "--json"]) == cli.VERIFIED
    told = json.loads(capsys.readouterr().out)
    assert told["document"] == document
    assert told["condition"] is None
    assert {one["operation"] for one in told["rights"]} == {"read"}
