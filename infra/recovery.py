"""Recovers resources whose creation was interrupted before Pulumi recorded its result.

The engine records each creation as pending before it begins. If the engine is killed, the records
stay, and the cloud finishes the creation. `pulumi refresh` keeps the records, because only a person
can know the ids. But each record has the resource's inputs with all names, and for resources that
take long to create, the id follows from them. So `recover` adds these resources to the state as if
they had been created. The next refresh reads them from the cloud, and removes those that do not
exist.

Sources: pulumi/pulumi, pkg/resource/deploy/deployment_executor.go (the warning) and
pkg/backend/snapshot.go (pending creations are kept); the ids: "Import" in the documentation of each
resource of terraform-provider-google and terraform-provider-aws. `pulumi refresh
--import-pending-creates` changes the record only: in engine 3.259 it adds no resource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_HIDDEN = {
    "04da6b54-80e4-46f7-96ec-b56ff0331ba9": "unknown until another resource is created",
    "[secret]": "secret",
}
"""The placeholders that a preview shows. Source: pulumi/pulumi, sdk/go/common/resource/plugin."""

Deployment = Mapping[str, Any]
"""The output of `pulumi stack export`."""


class CannotAdopt(Exception):
    """A resource cannot be taken over like this; the message says why and what to do instead."""


@dataclass(frozen=True)
class Recovered:
    """A state to import, and the outcome of each pending operation."""

    deployment: Deployment
    adopted: Sequence[tuple[str, str]]
    """URN and id of operations that became resources; a refresh removes those that do not exist."""
    repeatable: Sequence[str]
    """URNs of resources that can be created again."""
    unknown: Sequence[str]
    """URNs of resources whose id only the cloud knows. They stay pending."""

    @property
    def pending(self) -> Sequence[Mapping[str, Any]]:
        """The resources of `unknown`, as they were planned."""
        operations = self.deployment["deployment"].get("pending_operations") or ()
        return [operation["resource"] for operation in operations]


def recover(exported: Deployment, answers: Mapping[str, str | None] | None = None) -> Recovered:
    """Turns interrupted creations into resources where their id is known.

    answers: URN -> the id in the cloud, as an import takes it; None if the cloud has no such
    resource, which can then be created again. Raises KeyError if `exported` is not an export of a
    stack.
    """
    known_ids = answers or {}
    state = exported["deployment"]
    resources: list[Mapping[str, Any]] = list(state.get("resources") or ())
    existing = {resource["urn"] for resource in resources if not resource.get("delete")}
    adopted: list[tuple[str, str]] = []
    repeatable: list[str] = []
    pending: list[Mapping[str, Any]] = []
    for operation in state.get("pending_operations") or ():
        resource = operation["resource"]
        urn, kind = resource["urn"], resource["type"]
        if operation["type"] != "creating" or urn in existing:
            continue  # a refresh shows whether a resource was changed or deleted
        identity = known_ids.get(urn) or _identity(resource, resources)
        if identity is not None:
            adopted.append((urn, identity))
            resources.append({**resource, "id": identity, "inputs": _inputs_at_creation(resource)})
        elif kind in _REPEATABLE or urn in known_ids:
            repeatable.append(urn)
        else:
            pending.append(operation)
    changed = {**state, "resources": resources, "pending_operations": pending}
    return Recovered(
        {**exported, "deployment": changed},
        adopted,
        repeatable,
        [operation["resource"]["urn"] for operation in pending],
    )


def add_planned_creations(
    exported: Deployment, previewed: Mapping[str, Any], urns: Sequence[str]
) -> Deployment:
    """Adds creations of the preview to the export, as if they had been interrupted.

    This serves a provider that died while the engine went on: nothing is pending then, yet the
    cloud goes on creating. Only resources that the user names are added: a resource that merely
    has the same name may belong to somebody else.
    previewed: the output of `pulumi preview --json`. Raises CannotAdopt.
    """
    planned = {
        step["urn"]: step["newState"]
        for step in previewed.get("steps") or ()
        if step["op"] == "create"
    }
    for urn in urns:
        if urn not in planned:
            raise CannotAdopt(
                f"{urn}: the next `pulumi up` would not create it; it would create "
                f"{', '.join(planned) or 'nothing'}"
            )
        for name, value in (planned[urn].get("inputs") or {}).items():
            if isinstance(value, str) and value in _HIDDEN:
                raise CannotAdopt(
                    f"{urn}: its {name} is {_HIDDEN[value]}; use `pulumi import` for this resource"
                )
    state = exported["deployment"]
    interrupted = [{"type": "creating", "resource": planned[urn]} for urn in urns]
    pending = [*(state.get("pending_operations") or ()), *interrupted]
    return {**exported, "deployment": {**state, "pending_operations": pending}}


def _identity(resource: Mapping[str, Any], resources: Sequence[Mapping[str, Any]]) -> str | None:
    inputs = resource.get("inputs") or {}
    kind = str(resource["type"])
    find = _kubernetes_id if kind.startswith("kubernetes:") else _IDS.get(kind)
    if find is None:
        return None
    try:
        return find({**provider_settings(resource, resources), **inputs})
    except KeyError:
        return None  # a name that the provider itself would have chosen


def _inputs_at_creation(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inputs, without those that the provider applies after the creation.

    Their absence makes the next `up` an update, which applies them. The provider of GKE clusters
    deletes the default pool at such an update, and accepts that it is absent
    (terraform-provider-google, resource_container_cluster.go).
    """
    deferred = _DEFERRED_INPUTS.get(str(resource["type"]), ())
    return {k: v for k, v in (resource.get("inputs") or {}).items() if k not in deferred}


def provider_settings(
    resource: Mapping[str, Any], resources: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The provider's project, region and profile, which its resources have by default."""
    urn = str(resource.get("provider") or "").rpartition("::")[0]
    for candidate in resources:
        if candidate["urn"] == urn:
            inputs = candidate.get("inputs") or {}
            return {k: inputs[k] for k in ("project", "region", "profile") if k in inputs}
    return {}


def _kubernetes_id(inputs: Mapping[str, Any]) -> str:
    """A Helm release has its name among its inputs, an object in its metadata."""
    meta = inputs.get("metadata", inputs)
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def _account(inputs: Mapping[str, Any]) -> str:
    project = inputs["project"]
    email = f"{inputs['accountId']}@{project}.iam.gserviceaccount.com"
    return f"projects/{project}/serviceAccounts/{email}"


def _pool(inputs: Mapping[str, Any]) -> str:
    cluster = str(inputs["cluster"])
    if "/" not in cluster:
        location = inputs["location"]
        cluster = f"projects/{inputs['project']}/locations/{location}/clusters/{cluster}"
    return f"{cluster}/nodePools/{inputs['name']}"


_IDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "gcp:compute/network:Network": lambda i: f"projects/{i['project']}/global/networks/{i['name']}",
    "gcp:compute/subnetwork:Subnetwork": lambda i: (
        f"projects/{i['project']}/regions/{i['region']}/subnetworks/{i['name']}"
    ),
    "gcp:compute/firewall:Firewall": lambda i: (
        f"projects/{i['project']}/global/firewalls/{i['name']}"
    ),
    "gcp:serviceaccount/account:Account": _account,
    "gcp:container/cluster:Cluster": lambda i: (
        f"projects/{i['project']}/locations/{i['location']}/clusters/{i['name']}"
    ),
    "gcp:container/nodePool:NodePool": _pool,
    "aws:eks/cluster:Cluster": lambda i: str(i["name"]),
    "aws:eks/nodeGroup:NodeGroup": lambda i: f"{i['clusterName']}:{i['nodeGroupName']}",
    "aws:eks/addon:Addon": lambda i: f"{i['clusterName']}:{i['addonName']}",
    "gcp:compute/router:Router": lambda i: (
        f"projects/{i['project']}/regions/{i['region']}/routers/{i['name']}"
    ),
    "gcp:compute/routerNat:RouterNat": lambda i: "/".join(
        (i["project"], i["region"], str(i["router"]).rpartition("/")[2], i["name"])
    ),
    # An import takes this text; the provider finds the id, which differs.
    "aws:ec2/routeTableAssociation:RouteTableAssociation": lambda i: (
        f"{i['subnetId']}/{i['routeTableId']}"
    ),
    "aws:ec2/placementGroup:PlacementGroup": lambda i: str(i["name"]),
    "aws:eks/accessEntry:AccessEntry": lambda i: f"{i['clusterName']}:{i['principalArn']}",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": lambda i: (
        f"{i['clusterName']}#{i['principalArn']}#{i['policyArn']}"
    ),
    "aws:iam/rolePolicy:RolePolicy": lambda i: f"{i['role']}:{i['name']}",
    "aws:iam/role:Role": lambda i: str(i["name"]),
    "aws:iam/instanceProfile:InstanceProfile": lambda i: str(i["name"]),
}
_DEFERRED_INPUTS = {"gcp:container/cluster:Cluster": ("removeDefaultNodePool",)}
# Creating them again changes nothing.
_REPEATABLE = frozenset(
    {
        "gcp:projects/iAMMember:IAMMember",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    }
)
