"""What the program's cloud resources call, and the rights in the account that the calls need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from infra.catalog.catalog import CatalogError
from infra.catalog.toml_rows import Row, build, keyed, read

_HERE = Path(__file__).parent

Operation = Literal["create", "read", "update", "delete"]
"""Of a Pulumi provider. A function that the program asks counts as `read`."""
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
"""Of which stacks: all; those with an autoscaled pool; those whose GKE control plane is reached by
its DNS name; those with `cluster.tags`; those that install an autoscaler; those whose roles have a
permissions boundary; those whose EKS cluster
exists, or is in subnets that do; those that make Cloud NAT or NAT gateways, or networks for the
GPUs of GKE's nodes; those that make their cluster, and those that make a network; those whose
cluster has a KMS key for its secrets; those with tags on a node group, with a launch template, and
with a placement group; those with access entries, and with policies in them; those with add-ons
that have IAM roles, and with associations of other pods with theirs.
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
    """A resource type of the program, or a function that it asks."""

    type: str
    """Pulumi's token."""
    source: str
    calls: Mapping[Operation, tuple[str, ...]]
    """As the log of cloud calls names them: `ec2 CreateVpc`, `compute networks.insert`."""
    behind: tuple[Behind, ...] = ()
    when: Occasion = "always"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The kinds of resources that AWS checks an action against."""

    makes: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    """Resources that exist, or that are known by their name."""
    only: str | None = None
    """Another condition on the action."""
    needs_boundary: bool = False
    """Whether the action makes its holder an administrator, unless the roles that it is about have
    a permissions boundary.
    """
    tags_what_is_made: bool = False
    """Whether it is also asked for while the resource is being created."""


@dataclass(frozen=True, kw_only=True)
class Rights:
    resources: Mapping[str, Calling]
    methods: Mapping[str, tuple[str, ...]]
    """Google's: call -> rights."""
    scopes: Mapping[str, Scope]
    """AWS's, by action; without a row AWS limits the action by no resource."""

    def of_call(self, call: str) -> tuple[str, ...]:
        """The rights that a call needs. Raises CatalogError for a call that is not known."""
        if self.methods:
            if call not in self.methods:
                raise CatalogError(f"catalog: no rights are known for the call {call!r}")
            return self.methods[call]
        service, _, action = call.partition(" ")
        return (f"{service.removeprefix('aws-')}:{action}",)


@cache
def aws_rights() -> Rights:
    """Raises CatalogError for an incomplete or unknown row."""
    return _of("aws")


@cache
def google_rights() -> Rights:
    """Raises CatalogError for an incomplete or unknown row."""
    return _of("google")


def _of(cloud: str) -> Rights:
    raw = read(_HERE, "rights.toml")[cloud]
    found = Rights(
        resources=MappingProxyType(
            keyed([build(_calling, row) for row in raw["resource"]], lambda r: r.type)
        ),
        methods=MappingProxyType({k: tuple(v) for k, v in raw.get("methods", {}).items()}),
        scopes=MappingProxyType({k: build(_scope, v) for k, v in raw.get("scopes", {}).items()}),
    )
    for resource in found.resources.values():
        for calls in resource.calls.values():
            for call in calls:
                found.of_call(call)
    return found


def _calling(row: Row) -> Calling:
    behind = tuple(build(_behind, part) for part in row.pop("behind", ()))
    calls = {operation: tuple(row.pop(operation, ())) for operation in OPERATIONS}
    return Calling(behind=behind, calls=MappingProxyType(calls), **row)


def _behind(row: Row) -> Behind:
    return Behind(rights=tuple(row.pop("rights")), **row)


def _scope(row: Row) -> Scope:
    return Scope(makes=tuple(row.pop("makes", ())), uses=tuple(row.pop("uses", ())), **row)
