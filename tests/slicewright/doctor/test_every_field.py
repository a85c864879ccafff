"""Every field of the two simulated accounts: where a value of it makes `pulumi up` fail,
`slicewright doctor` fails as well, and names it. A new field without a row fails the first test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright.doctor.checks.gke import quotas as gke_quota_checks
from slicewright.exit_codes import NOT_VERIFIED, VERIFIED
from slicewright.infra import plan
from slicewright.rehearsal.clouds.aws import account as aws_account
from slicewright.rehearsal.clouds.gcp import account as google_account
from slicewright.rehearsal.clouds.gcp.gke.quotas import NAMES
from tests.infra.applied import Refused, applied
from tests.infra.google_project import let_gke_make_networks
from tests.slicewright.doctor.conftest import STACKS, Doctor
from tests.slicewright.doctor.test_google import PROJECT

PAGE = (STACKS.parent / "docs" / "how-to" / "ask-the-account.md").read_text()
Change = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A value that is wrong for a stack."""

    field: str
    value: object
    said: str
    """By doctor. Where doctor cannot see it: by its page, of what it does not see."""
    refused: str | None
    """By the clouds, in `pulumi up`. None: later, or for want of rights, which the simulated clouds
    do not ask for.
    """
    changes: tuple[Change, ...] = ()
    """Of the stack file."""
    seen: bool = True


_CLUSTER = "name: p4d-cluster"
_NODES = "nodes: { count: 1 }"
_POOL = "ami_type: AL2023_x86_64_NVIDIA"
_KEY = "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555"
_BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"
_PRIVATE: Change = (_CLUSTER, f"{_CLUSTER}\n      network: private")
_KARPENTER: tuple[Change, ...] = (
    (_CLUSTER, f"{_CLUSTER}\n      autoscaler: {{mode: karpenter, interruption_queue: q}}"),
    (_POOL, "release_version: 1.36.0-20260714"),
    (_NODES, "nodes: {min: 0, max: 1}\n        capacity: spot"),
)
_RESERVED = "{mode: reservation, reservation: cr-0123456789abcdef0}"
_NOBODY: Mapping[str, Any] = {"arn": "arn:aws:iam::123456789012:user/me", "policies": []}

AWS = (
    Row(field="vcpus", value={"L-417A185B": 95}, said="quota L-417A185B", refused="VcpuLimitExc"),
    Row(
        field="vcpus",
        value={"L-1216C47A": 1},
        said="quota L-1216C47A",
        refused="VcpuLimitExceeded",
    ),
    Row(
        field="running",
        value={"p4d.24xlarge": 16},
        said="1536 used by others",
        refused="VcpuLimitExceeded",
    ),
    Row(
        field="stock",
        value={"p4d.24xlarge": {"euw1-az2": 0}},
        said="can still be sold out",
        refused="InsufficientInstanceCapacity",
        seen=False,
    ),
    Row(
        field="reservations",
        value={},
        said="capacity reservation cr-0123456789abcdef0",
        refused="cr-0123456789abcdef0",
        changes=((_NODES, f"{_NODES}\n        capacity: {_RESERVED}"),),
    ),
    Row(
        field="keys",
        value={},
        said=f"key {_KEY} (cluster.secrets_key): does not exist",
        refused=_KEY,
        changes=((_CLUSTER, f"{_CLUSTER}\n      secrets_key: {_KEY}"),),
    ),
    Row(
        field="boundaries",
        value={},
        said=f"policy {_BOUNDARY} (cluster.permissions_boundary): does not exist",
        refused="does not exist or is not attachable",
        changes=((_CLUSTER, f"{_CLUSTER}\n      permissions_boundary: {_BOUNDARY}"),),
    ),
    # Karpenter asks for both once it runs.
    Row(field="queues", value=[], said="queue q", refused=None, changes=_KARPENTER),
    Row(
        field="spot_role",
        value=False,
        said="AWSServiceRoleForEC2Spot",
        refused=None,
        changes=_KARPENTER,
    ),
    Row(
        field="zones",
        value={"eu-west-1a": "euw1-az1", "eu-west-1c": "euw1-az2"},
        said="p4d.24xlarge for pool demo-gpu-workers: not offered in eu-west-1a",
        refused="p4d.24xlarge",
    ),
    Row(
        field="elastic_ips",
        value=0,
        said="quota L-0263D0A3",
        refused="AddressLimitExceeded",
        changes=(_PRIVATE,),
    ),
    Row(
        field="nat_gateways_per_zone",
        value=0,
        said="quota L-FE5A380F",
        refused="NatGatewayLimitExceeded",
        changes=(_PRIVATE,),
    ),
    Row(field="vpcs", value=0, said="quota L-F678F1CE", refused="VpcLimitExceeded"),
    Row(field="node_groups", value=1, said="quota L-6D54EA21", refused="ResourceLimitExceeded"),
    Row(field="nodes_per_group", value=0, said="quota L-BD136A63", refused="ResourceLimitExceeded"),
    Row(field="caller", value=_NOBODY, said="rights", refused=None),
)
AWS_DELAYS = {"iam_spread_s", "unseen_reads", "request_rates", "leftovers_s"}
"""Fields that make `pulumi up` slower, or nothing of it, and never fail."""

_SPOT = "capacity: spot"
_DISK = "location: us-central1"
_WEEK = "{mode: reservation, reservation: week}"
_GOOGLE_KEY = "projects/acme-keys/locations/us-central1/keyRings/gke/cryptoKeys/disks"


def quota(metric: str, said: str = "in us-central1", *changes: Change) -> Row:
    short = f'"{metric}": request requires'
    return Row(
        field="quotas",
        value={metric: 0},
        said=f"quota {metric} {said}",
        refused="Quota 'NETWORKS' exceeded" if metric == "NETWORKS" else short,
        changes=changes,
    )


GOOGLE = (
    quota("PREEMPTIBLE_NVIDIA_H100_GPUS"),
    quota("SSD_TOTAL_GB"),
    quota("CPUS"),
    quota("IN_USE_ADDRESSES"),
    quota("GPUS_ALL_REGIONS", "in project acme"),
    quota("CPUS_ALL_REGIONS", "in project acme"),
    quota("NETWORKS", "in project acme"),
    Row(
        field="reservations",
        value=[],
        said="reservation week",
        refused="week",
        changes=((_SPOT, f"capacity: {_WEEK}"),),
    ),
    Row(
        field="keys",
        value={},
        said=_GOOGLE_KEY,
        refused=_GOOGLE_KEY,
        changes=((_DISK, f"{_DISK}\n      kms_key: {_GOOGLE_KEY}"),),
    ),
    Row(
        field="constraints",
        value=["compute.vmExternalIpAccess"],
        said="constraint compute.vmExternalIpAccess",
        refused="Constraint constraints/compute.vmExternalIpAccess violated",
    ),
    Row(
        field="constraints",
        value=["compute.requireShieldedVm"],
        said="constraint compute.requireShieldedVm",
        refused="Constraint constraints/compute.requireShieldedVm violated",
    ),
    Row(
        field="constraints",
        value=["iam.disableServiceAccountCreation"],
        said="constraint iam.disableServiceAccountCreation",
        refused="Service account creation is not allowed",
    ),
    Row(field="lacks", value=["container.clusters.create"], said="missing: cont", refused=None),
    Row(field="application_default", value=None, said="gives no token", refused=None),
    Row(
        field="container_admins",
        value=[],
        said="rights of the caller in the Kubernetes API of a new GKE cluster",
        refused=None,
        seen=False,
    ),
)
GOOGLE_DELAYS = {"leftovers_s", "gcloud"}
ROWS = (*(("eks-a100", row) for row in AWS), *(("gke-h100", row) for row in GOOGLE))
of_each_row = pytest.mark.parametrize(
    ("stack", "row"), ROWS, ids=[f"{row.field}-{row.said[:30]}" for _, row in ROWS]
)


def test_every_field_has_a_row() -> None:
    for account, rows, delays in (
        (aws_account.Account, AWS, AWS_DELAYS),
        (google_account.Account, GOOGLE, GOOGLE_DELAYS),
    ):
        fields = {field.name for field in dataclasses.fields(account)}
        assert fields == {row.field for row in rows} | delays
        assert not {row.field for row in rows} & delays


def settings(stack: str, row: Row) -> dict[str, Any]:
    return dict(aws_account.PROMPT) | {row.field: row.value} if stack == "eks-a100" else {}


@of_each_row
def test_doctor_fails_and_names_it(doctor: Doctor, stack: str, row: Row) -> None:
    aws_account.write_account(doctor.environment, **settings(stack, row))
    changes = row.changes
    if stack == "gke-h100":
        google_account.write_account(doctor.environment, {row.field: row.value})
        changes = (PROJECT, *changes)
    code, said = doctor(stack, *changes)
    if not row.seen:
        assert code == VERIFIED, said
        assert row.said in PAGE.partition("## Limits")[2]
        return
    assert code == NOT_VERIFIED, said
    failed = [line for line in said.splitlines() if line.startswith("fails")]
    assert any(row.said in line for line in failed), said


@pytest.mark.parametrize(
    ("stack", "row"),
    [(stack, row) for stack, row in ROWS if row.refused],
    ids=[f"{row.field}-{row.said[:30]}" for _, row in ROWS if row.refused],
)
def test_up_fails(tmp_path: Path, stack: str, row: Row) -> None:
    text = (STACKS / f"Pulumi.{stack}.yaml").read_text()
    for old, new in row.changes:
        text = text.replace(old, new)
    file = tmp_path / f"Pulumi.{stack}.yaml"
    file.write_text(text)
    fleet = plan.read_file(file)
    account = {row.field: row.value} if stack == "eks-a100" else {}
    with applied(**account) as up:
        if stack == "gke-h100":
            google_account.write_account(up.directory, {row.field: row.value})
            let_gke_make_networks(up.cloud, "slicewright-test")
        with pytest.raises(Refused) as refused:
            up.up(fleet)
    assert str(row.refused) in str(refused.value)


def test_doctor_knows_every_quota_of_a_region_that_the_simulated_google_counts() -> None:
    """But those of GPUs for which Compute Engine's API has no name: of them doctor says so."""
    known = {"CPUS", "IN_USE_ADDRESSES", *gke_quota_checks._DISKS.values()}
    gpus = {name.removeprefix("PREEMPTIBLE_") for name in NAMES if name.endswith("_GPUS")}
    assert {name for name in NAMES if not name.endswith("_GPUS")} == known
    assert set(gke_quota_checks._GPUS.values()) <= gpus
