"""Records the resources that the program registers, in place of Pulumi's engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pulumi
import pulumi_aws as aws
import pulumi_gcp as gcp
from pulumi.runtime import resource as registrations
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.proto import source_pb2

from slicewright.infra import plan, program
from slicewright.infra.components.eks.cluster import EksCluster
from slicewright.infra.components.gke.cluster import GkeCluster

VERIFIED: Mapping[str, Any] = {
    "conditions": [
        {"type": "Verified", "status": "True", "observedGeneration": 3, "reason": "AllVerified"}
    ]
}


_CLUSTER: Mapping[str, Any] = {
    "status": "ACTIVE",
    "version": "1.35",
    "accessConfigs": [{"authenticationMode": "API"}],
    "vpcConfig": {"subnetIds": ["subnet-a", "subnet-b"], "vpcId": "vpc-1"},
}
_SUBNETS: Mapping[str, Mapping[str, Any]] = {
    f"subnet-{zone}": {
        "id": f"subnet-{zone}",
        "availabilityZone": f"us-west-2{zone}",
        "availabilityZoneId": f"usw2-az{number}",
        "availableIpAddressCount": 4091,
        "mapPublicIpOnLaunch": False,
    }
    for number, zone in enumerate("ab", start=1)
}
"""Of an account with an EKS cluster."""


@dataclass(frozen=True)
class Made:
    """One resource as the program asked for it."""

    type: str
    name: str
    inputs: Mapping[str, Any]
    provider: str
    read: str
    """Id of what is only read; empty for what is created."""


@dataclass
class Recorder(pulumi.runtime.Mocks):
    """Answers with the inputs, and with the outputs that a cloud would add."""

    status: Mapping[str, Any] | None = None
    preview: bool = False
    cluster_policy: Mapping[str, Any] | None = None
    """`spec` of the ClusterPolicy of an operator that exists."""
    node_groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Those that EKS has in the cluster `c`, with their live scalingConfig."""
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """NAMESPACE/NAME -> data, of those in the cluster."""
    made: list[Made] = field(default_factory=list)

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.made.append(
            Made(args.typ, args.name, args.inputs, args.provider or "", args.resource_id or "")
        )
        outputs = dict(args.inputs)
        if self.preview and args.custom and not args.resource_id:
            return "", outputs
        if args.typ == "gcp:container/cluster:Cluster":
            outputs |= {
                "endpoint": "127.0.0.1:6443",
                "masterAuth": {"clusterCaCertificate": "Q0E="},
                "controlPlaneEndpointsConfig": {
                    "dnsEndpointConfig": {"endpoint": "gke-1.us-central1.gke.goog"}
                },
            }
        if args.typ == "gcp:container/cluster:Cluster" and args.resource_id:
            _, project, _, location, _, name = args.resource_id.split("/")
            outputs |= {
                "name": name,
                "location": location,
                "masterVersion": "1.34.1-gke.1431000",
                "workloadIdentityConfig": {"workloadPool": f"{project}.svc.id.goog"},
            }
        if args.typ == "aws:eks/cluster:Cluster":
            outputs |= {
                "endpoint": "https://127.0.0.1:6443",
                "certificateAuthority": {"data": "Q0E="},
                "vpcConfig": {
                    **outputs.get("vpcConfig", {}),
                    "clusterSecurityGroupId": "sg-eks",
                },
            }
        if args.typ == "aws:ec2/launchTemplate:LaunchTemplate":
            outputs |= {"latestVersion": 1}
        if args.typ == "gcp:serviceaccount/account:Account":
            outputs |= {"email": f"{args.inputs['accountId']}@p.iam.gserviceaccount.com"}
        if args.typ.startswith("aws:iam/role:"):
            outputs |= {"arn": f"arn:aws:iam::1:role/{args.name}", "name": args.name}
        if args.resource_id and args.typ.endswith(":ConfigMap"):
            # In a preview the id is unknown, and so is what would be read.
            known = {f"{m.name}-id": m.inputs for m in self.made}
            outputs |= known.get(args.resource_id, {})
            outputs |= {"data": self.config_maps.get(args.resource_id, outputs.get("data"))}
        if args.typ == "aws:ec2/placementGroup:PlacementGroup":
            outputs |= {"name": args.name}
        if args.typ.endswith(":ClusterPolicy"):
            outputs |= {"spec": self.cluster_policy}
        if args.typ.endswith(":GPUPool"):
            outputs |= {
                "status": self.status,
                "metadata": {"name": "p", "generation": 3},
                "spec": args.inputs.get("spec") or {},
            }
        return args.resource_id or f"{args.name}-id", outputs

    def call(
        self, args: pulumi.runtime.MockCallArgs
    ) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """A program may ask for what is there already, also before the first `up`."""
        match args.token:
            case "aws:eks/getClusters:getClusters":
                return {"names": ["c"] if self.node_groups else []}, []
            case "aws:eks/getNodeGroups:getNodeGroups" if args.args["clusterName"] == "c":
                return {"names": [*self.node_groups]}, []
            case "aws:eks/getNodeGroup:getNodeGroup":
                return {"scalingConfigs": [self.node_groups[args.args["nodeGroupName"]]]}, []
            case "aws:eks/getCluster:getCluster":
                return {**_CLUSTER, "name": args.args["name"]}, []
            case "aws:ec2/getSubnet:getSubnet":
                return {**_SUBNETS[str(args.args["id"])], "vpcId": "vpc-1"}, []
        raise AssertionError(
            f"the program asks the cloud: {args.token}; a first preview cannot answer"
        )


def recorded(
    fleet: plan.FleetPlan,
    stack: str,
    *,
    preview: bool = False,
    status: Mapping[str, Any] | None = VERIFIED,
    cluster_policy: Mapping[str, Any] | None = None,
    node_groups: Mapping[str, Mapping[str, int]] | None = None,
    config_maps: Mapping[str, Mapping[str, str]] | None = None,
    deploy: Callable[[plan.FleetPlan], None] = program.deploy,
) -> list[Made]:
    """Deploys a fleet to a recorder and gives what was asked for, in any order."""
    recorder = Recorder(
        status=status,
        preview=preview,
        cluster_policy=cluster_policy,
        node_groups=node_groups or {},
        config_maps=config_maps or {},
    )
    record(recorder, lambda: deploy(fleet), stack=stack, preview=preview)
    assert len({(m.type, m.name) for m in recorder.made}) == len(recorder.made), (
        "two resources of one URN"
    )
    return recorder.made


def deploy_cloud(fleet: plan.FleetPlan) -> None:
    """The program's cluster and node pools, without what it makes in the cluster: that is two
    thirds of a recording's time.
    """
    match fleet:
        case plan.GkeFleetPlan():
            project = pulumi.Config("gcp").require("project")
            google = gcp.Provider("gcp", project=project, region=fleet.cluster.region)
            GkeCluster("gke", fleet, project=project, provider=google)
        case plan.EksFleetPlan():
            amazon = aws.Provider("aws", region=fleet.cluster.region)
            EksCluster("eks", fleet, provider=amazon)
        case _:
            raise AssertionError("an existing cluster has no part in a cloud")


class _Loop(asyncio.SelectorEventLoop):
    """Asks the recorder at once: the SDK gives each call to the engine to a thread, which would
    wait for nothing here.
    """

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        answer = self.create_future()
        try:
            answer.set_result(func(*args))
        except Exception as problem:
            answer.set_exception(problem)
        return answer


def record(
    recorder: pulumi.runtime.Mocks,
    deploy: Callable[[], None],
    *,
    stack: str,
    preview: bool = False,
    monitor: MockMonitor | None = None,
) -> None:
    """Runs what declares resources, with the recorder as its engine."""
    # pulumi.runtime.test() takes the thread's event loop, which asyncio.run() of an earlier test
    # leaves unset.
    loop = _Loop()
    # Where the program fails, each resource that waits fails with it, and the loop would tell of
    # each when the tests end, after their summary.
    loop.set_exception_handler(lambda *_: None)
    asyncio.set_event_loop(loop)
    pulumi.runtime.set_mocks(
        recorder, project="slicewright", stack=stack, preview=preview, monitor=monitor
    )
    pulumi.runtime.set_all_config({"gcp:project": "slicewright-gke-h100"})
    # Each registration tells the engine all calls on the stack, of which pytest alone has 40: a
    # quarter of a recording's time for what the recorder is not told.
    with mock.patch.object(registrations, "_get_stack_trace", source_pb2.StackTrace):
        pulumi.runtime.test(deploy)()  # type: ignore[no-untyped-call]
