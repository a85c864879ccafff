"""The cloud calls of the program's resources, and the account rights that these calls need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from slicewright.infra.catalog.catalog_error import CatalogError
from slicewright.infra.catalog.toml_rows import Row, build, keyed, read

_HERE = Path(__file__).parent / "data"

Operation = Literal["create", "read", "update", "delete"]
"""An operation of a Pulumi provider. A function that the program calls counts as `read`."""
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

Occasion = Literal[
    "access",
    "access-policies",
    "always",
    "autoscaled",
    "autoscaler",
    "bounded",
    "by-dns",
    "cluster-tags",
    "existing-cluster",
    "existing-subnets",
    "gpu-networks",
    "nat",
    "own-cluster",
    "own-network",
    "placed",
    "pod-identity",
    "pod-roles",
    "secrets-key",
    "tagged",
    "templated",
]
"""The stacks that need a right.

access, access-policies: stacks with access entries, or with policies in them. always: all stacks.
autoscaled: an autoscaled pool. autoscaler: an autoscaler is installed. bounded: roles have a
permissions boundary. by-dns: the GKE control plane is reached by its DNS name. cluster-tags:
`cluster.tags`. existing-cluster, existing-subnets: the EKS cluster, or its subnets, exist already.
gpu-networks: networks for the GPUs of GKE's nodes are created. nat: Cloud NAT or NAT gateways are
created. own-cluster, own-network: the cluster, or a network, is created. placed: a placement group.
pod-identity: add-ons with IAM roles. pod-roles: associations of other pods with their roles.
secrets-key: a KMS key for the cluster's secrets. tagged: tags on a node group. templated: a launch
template.
"""


@dataclass(frozen=True, kw_only=True)
class Behind:
    """Rights that a call of the rehearsal does not show."""

    rights: tuple[str, ...]
    during: Operation
    why: str
    source: str
    when: Occasion = "always"


@dataclass(frozen=True, kw_only=True)
class Calling:
    """A resource type of the program, or a function that it calls."""

    type: str
    """Pulumi's token."""
    source: str
    calls: Mapping[Operation, tuple[str, ...]]
    """Calls, named as in the log of cloud calls: `ec2 CreateVpc`, `compute networks.insert`."""
    behind: tuple[Behind, ...] = ()
    when: Occasion = "always"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The kinds of resources that AWS checks an action against."""

    makes: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    """Resources that exist, or whose name is known."""
    only: str | None = None
    """Another condition on the action."""
    needs_boundary: bool = False
    """True if the action makes its holder an administrator of the account, unless the roles have a
    permissions boundary.
    """
    tags_new_resources: bool = False
    """True if the right is also needed while a resource is being created with tags."""


@dataclass(frozen=True, kw_only=True)
class Rights:
    resources: Mapping[str, Calling]
    methods: Mapping[str, tuple[str, ...]]
    """Google: call -> rights."""
    scopes: Mapping[str, Scope]
    """AWS: action -> scope. Without a row, AWS cannot limit the action to a resource."""

    def rights_for(self, call: str) -> tuple[str, ...]:
        """The rights that a call needs. Raises CatalogError for an unknown call."""
        if self.methods:
            if call not in self.methods:
                raise CatalogError(f"catalog: no rights are known for the call {call!r}")
            return self.methods[call]
        service, _, action = call.partition(" ")
        return (f"{service.removeprefix('aws-')}:{action}",)


@cache
def aws_rights() -> Rights:
    """The rights of AWS. Raises CatalogError for an incomplete or unknown row."""
    return _load("aws")


@cache
def google_rights() -> Rights:
    """Google's rights. Raises CatalogError for an incomplete or unknown row."""
    return _load("google")


def _load(cloud: str) -> Rights:
    raw = read(_HERE, "rights.toml")[cloud]
    rights = Rights(
        resources=MappingProxyType(
            keyed([build(_calling, row) for row in raw["resource"]], lambda r: r.type)
        ),
        methods=MappingProxyType({k: tuple(v) for k, v in raw.get("methods", {}).items()}),
        scopes=MappingProxyType({k: build(_scope, v) for k, v in raw.get("scopes", {}).items()}),
    )
    for resource in rights.resources.values():
        for calls in resource.calls.values():
            for call in calls:
                rights.rights_for(call)
    return rights


def _calling(row: Row) -> Calling:
    behind = tuple(build(_behind, part) for part in row.pop("behind", ()))
    calls = {operation: tuple(row.pop(operation, ())) for operation in OPERATIONS}
    return Calling(behind=behind, calls=MappingProxyType(calls), **row)


def _behind(row: Row) -> Behind:
    return Behind(rights=tuple(row.pop("rights")), **row)


def _scope(row: Row) -> Scope:
    return Scope(makes=tuple(row.pop("makes", ())), uses=tuple(row.pop("uses", ())), **row)
