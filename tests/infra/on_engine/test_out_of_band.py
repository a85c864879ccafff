"""What somebody changes or deletes in the cloud by its own API is named by the next preview with
`--refresh`, and the next `up` puts it back: with the listed rights, and without a loss of nodes of
other pools. The listed rights of updates are those that this uses, and a new Kubernetes version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from slicewright.infra import catalog, plan
from slicewright.rehearsal.clouds.core import call_log
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import BOUNDARY, PROJECT, REGION, CloudEngine, cloud_engine
from tests.infra.on_engine.test_every_key import nodes_of
from tests.infra.plan.test_change_keys import planned
from tests.rights_used import not_allowed, unused

ROLE = "arn:aws:iam::111122223333:role"
EKS: dict[str, Any] = {
    "cloud": "eks",
    "cluster": {
        "name": "c",
        "region": REGION,
        "version": "1.35",
        "zones": ["us-west-2a", "us-west-2b"],
        "network": "private",
        "logs": ["audit"],
        "autoscaler": "cluster-autoscaler",
        "permissions_boundary": BOUNDARY,
        "addons": {"coredns": {"settings": {"replicaCount": 3}}},
        "access": {"entries": [{"principal": f"{ROLE}/ops", "groups": ["ops"]}]},
    },
    "node_pools": [
        {
            "name": "one",
            "machine_type": "g6.xlarge",
            "nodes": {"count": 1},
            "labels": {"tier": "gold"},
            "tags": {"team": "ml"},
        },
        {
            "name": "two",
            "machine_type": "g6.xlarge",
            "nodes": {"min": 1, "max": 3},
            "instance_metadata": {},
            "placement": "cluster",
        },
    ],
}
GKE: dict[str, Any] = {
    "cloud": "gke",
    "cluster": {
        "name": "c",
        "location": "us-central1",
        "private_nodes": True,
        "maintenance": {"window": {"mode": "daily", "start": "03:00"}},
    },
    "node_pools": [
        {
            "name": name,
            "machine_type": "a2-highgpu-1g",
            "zones": ["us-central1-a"],
            "nodes": nodes,
            "labels": {"tier": "gold"},
            "taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}],
            "partition": {"mode": "native", "profile": "1g.5gb"},
        }
        for name, nodes in (("one", {"count": 1}), ("two", {"min": 1, "max": 3}))
    ],
}
POOLS = "projects.locations.clusters.nodePools"
CLUSTER = f"projects/{PROJECT}/locations/us-central1/clusters/c"


@dataclass
class Watched:
    """A stack that is up, and the calls that it made, without those made by hand."""

    engine: CloudEngine
    fleet: dict[str, Any]
    calls: list[call_log.LoggedCall] = field(default_factory=list)
    _read: int = 0

    @property
    def cloud(self) -> str:
        return str(self.fleet["cloud"])

    @property
    def nodes(self) -> Mapping[str, set[str]]:
        return nodes_of(self.engine, self.cloud)

    def aws(self, service: str, operation: str, **body: Any) -> Mapping[str, Any]:
        return self._by_hand(service, operation, {"region": REGION}, body)

    def google(
        self, service: str, method: str, where: dict[str, Any], **body: Any
    ) -> Mapping[str, Any]:
        return self._by_hand(service, method, where, body)

    def _by_hand(
        self, service: str, operation: str, where: dict[str, Any], body: dict[str, Any]
    ) -> Mapping[str, Any]:
        self.keep()
        answer = self.engine.cloud.call(service, operation, where, body)
        assert self.engine.cloud.tasks.wait(60)
        self.engine.cloud.look_around()
        self._read = len(self._log())
        return dict(answer)

    def keep(self) -> None:
        """The stack's calls since the last ones by hand."""
        log = self._log()
        self.calls += log[self._read :]
        self._read = len(log)

    def _log(self) -> list[call_log.LoggedCall]:
        return list(call_log.read(self.engine.directory.parent))

    def heal(self, names: set[str], operation: str) -> None:
        """A preview says this of the resources of these names, and of no others; `up` does it."""
        seen = self.engine.operations(self.fleet, "--refresh")
        changes = {
            name: what for name, whats in seen.items() if (what := whats - {"same", "refresh"})
        }
        assert changes == {name: {operation} for name in names}
        self.engine.deploy(self.fleet, "--refresh")
        self.is_clean()

    def is_clean(self) -> None:
        self.engine.assert_settled(self.fleet)


@pytest.fixture(
    params=[
        pytest.param(
            GKE,
            marks=pytest.mark.long("on EKS: tests/infra/on_engine/test_out_of_band.py"),
            id="gke",
        ),
        pytest.param(EKS, id="eks"),
    ]
)
def stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> Iterator[Watched]:
    fleet = request.param
    with cloud_engine(tmp_path_factory.mktemp(fleet["cloud"]), toolchain) as engine:
        engine.deploy(fleet)
        yield Watched(engine, fleet)


def change_eks(stack: Watched) -> set[str]:
    """Changes by hand: the resources that differ now."""
    ids, group = stack.engine.ids(), {"clusterName": "c", "nodegroupName": "one"}
    stack.aws(
        *("eks", "UpdateNodegroupConfig"),
        **group,
        labels={"addOrUpdateLabels": {"tier": "silver", "theirs": "x"}},
        taints={"addOrUpdateTaints": [{"key": "theirs", "value": "x", "effect": "NO_SCHEDULE"}]},
        scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 2},
    )
    limits = {"minSize": 0, "maxSize": 5}
    two = {"clusterName": "c", "nodegroupName": "two"}
    stack.aws("eks", "UpdateNodegroupConfig", **two, scalingConfig=limits)
    arn = stack.aws("eks", "DescribeCluster", name="c")["cluster"]["arn"]
    stack.aws("eks", "TagResource", resourceArn=arn, tags={"theirs": "x"})
    logs = [{"types": ["audit"], "enabled": False}]
    stack.aws("eks", "UpdateClusterConfig", name="c", logging={"clusterLogging": logs})
    coredns = {"clusterName": "c", "addonName": "coredns"}
    stack.aws("eks", "UpdateAddon", **coredns, configurationValues='{"replicaCount": 1}')
    ops = {"clusterName": "c", "principalArn": f"{ROLE}/ops"}
    stack.aws("eks", "UpdateAccessEntry", **ops, kubernetesGroups=["theirs"])
    trust = trusting("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession")
    theirs = {"RoleName": "theirs", "AssumeRolePolicyDocument": trust}
    made = stack.aws("aws-iam", "CreateRole", **theirs)
    stack.aws(
        *("eks", "UpdatePodIdentityAssociation"),
        clusterName="c",
        associationId=ids["PodIdentityAssociation", "eks-autoscaler-identity"],
        roleArn=made["Role"]["Arn"],
    )
    change_roles(stack, ids)
    change_network(stack, ids)
    return {
        *("eks", "eks-one", "eks-two", "eks-coredns", "eks-access-ops-f7c92e9b"),
        *("eks-autoscaler-identity", "eks-autoscaler-rights", "eks-nodes"),
        *("eks-network", "eks-us-west-2a", "eks-routes", "eks-us-west-2b-private"),
    }


def change_roles(stack: Watched, ids: Mapping[tuple[str, str], str]) -> None:
    nodes, scaler = ({"RoleName": ids["Role", name]} for name in ("eks-nodes", "eks-autoscaler"))
    # Another trust is for somebody with more rights: tests/infra/on_engine/eks/test_roles.py.
    stack.aws("aws-iam", "UpdateRole", **nodes, Description="theirs", MaxSessionDuration=7200)
    stack.aws("aws-iam", "TagRole", **nodes, Tags=[{"Key": "theirs", "Value": "x"}])
    listing = [{"Effect": "Allow", "Action": "autoscaling:Describe*", "Resource": "*"}]
    policy = json.dumps({"Version": "2012-10-17", "Statement": listing})
    named = {"PolicyName": "cluster-autoscaler", "PolicyDocument": policy}
    stack.aws("aws-iam", "PutRolePolicy", **scaler, **named)


def trusting(service: str, *actions: str) -> str:
    principal = {"Service": service}
    statement = {"Effect": "Allow", "Principal": principal, "Action": [*actions]}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def change_network(stack: Watched, ids: Mapping[tuple[str, str], str]) -> None:
    """Tags, the routes of two tables, and which table a subnet has."""
    internet = ids["RouteTable", "eks-routes"]
    gateway = {"GatewayId": ids["InternetGateway", "eks-internet"]}
    everywhere = {"DestinationCidrBlock": "0.0.0.0/0"}
    theirs = [{"Key": "theirs", "Value": "x"}]
    stack.aws("ec2", "CreateTags", Resources=[ids["Vpc", "eks-network"]], Tags=theirs)
    of_balancers = [{"Key": "kubernetes.io/role/elb"}]
    public = ids["Subnet", "eks-us-west-2a"]
    stack.aws("ec2", "DeleteTags", Resources=[public], Tags=of_balancers)
    elsewhere = {"RouteTableId": internet, "DestinationCidrBlock": "10.9.0.0/16"}
    stack.aws("ec2", "CreateRoute", **elsewhere, **gateway)
    private = {"RouteTableId": ids["RouteTable", "eks-us-west-2b-private"]}
    stack.aws("ec2", "ReplaceRoute", **private, **everywhere, **gateway)
    stack.aws(
        *("ec2", "ReplaceRouteTableAssociation"),
        AssociationId=ids["RouteTableAssociation", "eks-us-west-2b-private"],
        RouteTableId=internet,
    )


def delete_eks(stack: Watched) -> set[str]:
    """Deletes by hand: the resources that are gone."""
    ids = stack.engine.ids()
    stack.aws("eks", "DeleteNodegroup", clusterName="c", nodegroupName="one")
    stack.aws("eks", "DeleteAddon", clusterName="c", addonName="kube-proxy")
    stack.aws("eks", "DeleteAccessEntry", clusterName="c", principalArn=f"{ROLE}/ops")
    stack.aws(
        *("ec2", "DisassociateRouteTable"),
        AssociationId=ids["RouteTableAssociation", "eks-us-west-2a"],
    )
    return {"eks-one", "eks-kube-proxy", "eks-access-ops-f7c92e9b", "eks-us-west-2a"}


def change_gke(stack: Watched) -> set[str]:
    one, two = ({"name": f"{CLUSTER}/nodePools/{pool}"} for pool in ("one", "two"))
    now = stack.google("container", f"{POOLS}.get", one)["config"]
    labels = {**now["labels"], "tier": "silver", "theirs": "x"}
    stack.google("container", f"{POOLS}.update", one, labels={"labels": labels})
    evicting = [
        taint | ({"effect": "NO_EXECUTE"} if taint["key"] == "team" else {})
        for taint in now["taints"]
    ]
    stack.google("container", f"{POOLS}.update", one, taints={"taints": evicting})
    stack.google("container", f"{POOLS}.setSize", one, nodeCount=2)
    limits = {"enabled": True, "totalMinNodeCount": 0, "totalMaxNodeCount": 5}
    stack.google("container", f"{POOLS}.setAutoscaling", two, autoscaling=limits)
    unrepaired = {"autoRepair": False, "autoUpgrade": True}
    stack.google("container", f"{POOLS}.setManagement", two, management=unrepaired)
    whole, clusters = {"name": CLUSTER}, "projects.locations.clusters"
    rapid = {"desiredReleaseChannel": {"channel": "RAPID"}}
    stack.google("container", f"{clusters}.update", whole, update=rapid)
    later = {"window": {"dailyMaintenanceWindow": {"startTime": "05:00"}}}
    found = stack.google("container", f"{clusters}.get", whole)["maintenancePolicy"]
    policy = {**later, "resourceVersion": found["resourceVersion"]}
    stack.google("container", f"{clusters}.setMaintenancePolicy", whole, maintenancePolicy=policy)
    ids = stack.engine.ids()
    _, project, _, region, _, subnet = ids["Subnetwork", "gke-nodes"].split("/")
    place = {"project": project, "region": region, "subnetwork": subnet}
    stack.google("compute", "subnetworks.patch", place, privateIpGoogleAccess=False)
    account = {"name": ids["Account", "gke-nodes"]}
    named = {"serviceAccount": {"displayName": "theirs"}, "updateMask": "displayName"}
    stack.google("iam", "projects.serviceAccounts.patch", account, **named)
    return {"gke", "gke-one", "gke-two", "gke-nodes"}


def delete_gke(stack: Watched) -> set[str]:
    stack.google("container", f"{POOLS}.delete", {"name": f"{CLUSTER}/nodePools/one"})
    ids = stack.engine.ids()
    _, project, _, region, _, router = ids["Router", "gke-router"].split("/")
    place = {"project": project, "region": region, "router": router}
    stack.google("compute", "routers.patch", place, nats=[])
    bindings: dict[str, Any] = {"policy": {"bindings": []}}
    stack.google("cloudresourcemanager", "projects.setIamPolicy", {"resource": PROJECT}, **bindings)
    return {"gke-one", "gke-nat", "gke-nodes"}


def raised(fleet: dict[str, Any]) -> dict[str, Any]:
    """With a newer Kubernetes, which cannot be taken back by hand, and another version of a launch
    template.
    """
    later = json.loads(json.dumps(fleet))
    if fleet["cloud"] == "eks":
        later["cluster"]["version"] = "1.36"
        later["node_pools"][1]["instance_metadata"] = {"hop_limit": 2}
    return dict(later)


def test_manual_changes_and_deletions_are_named_and_reverted_with_the_listed_rights(
    stack: Watched,
) -> None:
    before = stack.nodes
    change, delete = (change_eks, delete_eks) if stack.cloud == "eks" else (change_gke, delete_gke)
    stack.heal(change(stack), "update")
    now = stack.nodes
    assert (now["two"], now["system"]) == (before["two"], before["system"])
    assert len(now["one"]) == 1
    stack.heal(delete(stack), "create")
    now = stack.nodes
    assert (now["two"], now["system"]) == (before["two"], before["system"])
    assert len(now["one"]) == 1
    later = raised(stack.fleet)
    for done in (stack.engine.up(later), stack.engine.destroy()):
        assert done.code == 0, done.output
    stack.keep()
    fleets = [planned(stack.fleet), planned(later)]
    assert all(isinstance(one, plan.EksFleetPlan | plan.GkeFleetPlan) for one in fleets)
    assert not_allowed(fleets, stack.calls) == []
    assert unused(fleets, stack.calls, catalog.OPERATIONS) == []
