"""The manners of the simulated AWS account: E/cloud/aws-account.json, read at every use.

Without the file the account is an ordinary one: it has quota, and its roles spread and its
leftovers go as in AWS, in seconds instead of minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge

from slicewright.rehearsal.clouds.core import account_file
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.strict import Strict

FILE = "aws-account.json"
ORDINARY_VCPUS: Mapping[str, int] = {
    "L-417A185B": 1536,
    "L-7212CCBC": 1536,
    "L-DB2E81BA": 1536,
    "L-3819A6DF": 1536,
}
EMPTY: Mapping[str, object] = {"vcpus": dict.fromkeys(ORDINARY_VCPUS, 0)}
"""Settings of a new account: it must ask for P and G instances first."""


_Count: TypeAlias = Annotated[int, Ge(0)]
_Seconds: TypeAlias = Annotated[float, Ge(0)]


@dataclass(frozen=True, kw_only=True)
class Reservation(Strict):
    """A capacity reservation, or the one of a capacity block."""

    instance_type: str
    zone: str
    """Zone id."""
    count: _Count
    """Instances."""
    kind: Literal["default", "capacity-block"] = "default"
    state: Literal["scheduled", "active", "expired", "cancelled"] = "active"
    open: bool = False
    """Whether instances that do not name it may run in it."""
    groups: tuple[str, ...] = ()
    """ARNs of the resource groups that it is in."""
    taken: _Count = 0
    """Instances of others that run in it."""
    start: str | None = None
    end: str | None = None
    """Of a capacity block, as `2026-12-01T11:30:00Z`."""


@dataclass(frozen=True, kw_only=True)
class Key(Strict):
    """A KMS key."""

    state: Literal["Enabled", "Disabled", "PendingDeletion", "PendingImport", "Unavailable"] = (
        "Enabled"
    )
    usage: Literal["ENCRYPT_DECRYPT", "SIGN_VERIFY", "GENERATE_VERIFY_MAC"] = "ENCRYPT_DECRYPT"
    spec: str = "SYMMETRIC_DEFAULT"


_EVERYTHING: Mapping[str, Any] = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}


@dataclass(frozen=True, kw_only=True)
class Caller(Strict):
    """Who calls, as STS says it, and the policies by which IAM's simulator judges."""

    arn: str = "arn:aws:iam::123456789012:user/rehearsal"
    """Of a session of a role: `arn:aws:sts::123456789012:assumed-role/ROLE/SESSION`."""
    role_path: str = "/"
    """Of that role."""
    policies: tuple[Mapping[str, Any], ...] = (_EVERYTHING,)
    boundary: Mapping[str, Any] | None = None
    organization: Mapping[str, Any] = field(default_factory=lambda: _EVERYTHING)
    """The service control policy."""
    enforced: bool = False
    """Whether the simulated services refuse what these policies do not allow. Without it they
    refuse no caller.
    """

    @property
    def role(self) -> str | None:
        """Its name; None: the caller is a user."""
        return self.arn.split("/")[1] if ":assumed-role/" in self.arn else None

    @property
    def principal(self) -> str:
        """Of the user, or of the role."""
        account = self.arn.split(":")[4]
        return f"arn:aws:iam::{account}:role{self.role_path}{self.role}" if self.role else self.arn


@dataclass(frozen=True, kw_only=True)
class Account(Strict):
    vcpus: Mapping[str, _Count] = field(default_factory=lambda: ORDINARY_VCPUS)
    """Quota code -> vCPU that instances of its families may have together, in one region."""
    stock: Mapping[str, Mapping[str, _Count]] = field(default_factory=dict)
    """Instance type -> zone id -> instances that EC2 has; a type without an entry never runs out.
    """
    reservations: Mapping[str, Reservation] = field(default_factory=dict)
    """By ID, cr-…: capacity that was reserved or bought before."""
    keys: Mapping[str, Key] | None = None
    """By ARN. None: whatever key is asked for is there, and enabled."""
    boundaries: Mapping[str, Mapping[str, Any]] | None = None
    """Customer managed policies that may be permissions boundaries, by ARN. None: whatever policy
    is asked for is there, and allows everything.
    """
    queues: tuple[str, ...] | None = None
    """Names of SQS queues. None: whatever queue is asked for is there."""
    spot_role: bool = True
    """Whether it has AWSServiceRoleForEC2Spot, which comes with the first spot request by hand."""
    zones: Mapping[str, str] = field(default_factory=dict)
    """Zone name -> zone id, where they are not as `zones.zone_ids` gives them."""
    elastic_ips: _Count = 5
    """Elastic IP addresses that a region gives. Source: VPC user guide, "Amazon VPC quotas"."""
    nat_gateways_per_zone: _Count = 5
    """Source: VPC user guide, "Amazon VPC quotas"."""
    vpcs: _Count = 5
    """VPCs of a region. Source: the same page."""
    node_groups: _Count = 30
    """Managed node groups of a cluster. Source: EKS user guide, "Amazon EKS service quotas"."""
    nodes_per_group: _Count = 450
    """Source: the same page."""
    running: Mapping[str, _Count] = field(default_factory=dict)
    """Instance type -> on-demand instances that run for others in each region."""
    caller: Caller = field(default_factory=Caller)
    iam_spread_s: _Seconds = 1.0
    """Until other services know of a new role or attachment, in seconds; in AWS some seconds."""
    unseen_reads: _Count = 1
    """How many Describe calls do not show a new EC2 resource yet."""
    request_rates: bool = True
    """Whether EC2 refuses requests beyond its published rates."""
    leftovers_s: _Seconds = 1.5
    """How long interfaces outlive their node, in seconds; in AWS some minutes."""


def account_of(context: Context) -> Account:
    """Raises AccountFileError."""
    return account_file.read(context.store.root / FILE, Account) or Account()


def write_account(environment: Path, **settings: object) -> None:
    """Gives the environment's account these settings, and the ordinary ones for the rest."""
    account_file.write(environment, FILE, settings)


PROMPT: Mapping[str, object] = {
    "iam_spread_s": 0.0,
    "unseen_reads": 0,
    "leftovers_s": 0.0,
    "request_rates": False,
}
"""Settings of an account without delays, for tests of something else."""
