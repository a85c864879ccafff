"""For each rule: what it refuses, and the nearest thing that it lets pass.

Properties are as the engine hands them to a pack: camelCase, numbers as floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from policy.rules import Resource, ResourceRule, StackRule, karpenter
from policy.rules.rule import complete_settings
from slicewright.apis.names import STARTUP_TAINT_KEY

GKE_POOL = "gcp:container/nodePool:NodePool"
EKS_POOL = "aws:eks/nodeGroup:NodeGroup"
GKE = "gcp:container/cluster:Cluster"
EKS = "aws:eks/cluster:Cluster"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
ROLE = "aws:iam/role:Role"
BOUNDARY = "arn:aws:iam::111122223333:policy/slicewright-boundary"
DIGEST = "sha256:" + "1" * 64


def resource(kind: str, name: str = "it", /, **props: Any) -> Resource:
    urn = f"urn:pulumi:dev::fleet::{kind}::{name}"
    return Resource(type=kind, name=name, urn=urn, props=props)


def gke_pool(name: str = "a", **more: Any) -> Resource:
    """Two nodes with a partitioned A100, as slicewright declares them."""
    size = more.pop("size", "1g.5gb")
    props: dict[str, Any] = {"name": name, "nodeCount": 2.0, "nodeLocations": ["us-central1-c"]}
    config: dict[str, Any] = {
        "machineType": "a2-highgpu-1g",
        "guestAccelerators": [
            {"type": "nvidia-tesla-a100", "count": 1.0, "gpuPartitionSize": size}
        ],
        "labels": {"slicewright.io/pool": name},
        "taints": [{"key": STARTUP_TAINT_KEY, "value": "unverified", "effect": "NO_SCHEDULE"}],
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},
    }
    for key, value in more.items():
        (props if key in ("nodeCount", "autoscaling", "nodeLocations") else config)[key] = value
    return resource(GKE_POOL, name, **props, nodeConfig=config)


def eks_pool(name: str = "a", **more: Any) -> Resource:
    props: dict[str, Any] = {
        "nodeGroupName": name,
        "instanceTypes": ["p4d.24xlarge"],
        "capacityType": "ON_DEMAND",
        "scalingConfig": {"minSize": 0.0, "desiredSize": 1.0, "maxSize": 2.0},
        "labels": {"slicewright.io/pool": name},
        "taints": [{"key": STARTUP_TAINT_KEY, "value": "unverified", "effect": "NO_SCHEDULE"}],
    }
    made = resource(EKS_POOL, name, **{**props, **more})
    return replace(made, provider={"region": "eu-west-1"})


def node_pool(name: str = "a", **more: Any) -> Resource:
    """Karpenter's, as slicewright declares one. `requirements`, `limits`: in place of its own."""
    required = [
        requirement("node.kubernetes.io/instance-type", "p4d.24xlarge"),
        requirement("karpenter.sh/capacity-type", "on-demand"),
    ]
    taint = {"key": STARTUP_TAINT_KEY, "value": "unverified", "effect": "NoSchedule"}
    template = {
        "metadata": {"labels": {"slicewright.io/pool": name}},
        "spec": {
            "requirements": more.pop("requirements", required),
            "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
            "startupTaints": more.pop("startup_taints", [taint]),
        },
    }
    spec = {"limits": {"nodes": "2"}, **more, "template": template}
    return resource(karpenter.NODE_POOL, name, metadata={"name": name}, spec=spec)


def requirement(key: str, *values: str, operator: str = "In") -> Mapping[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def node_class(name: str = "a", **spec: Any) -> Resource:
    terms = [{"alias": "al2023@v20260714"}]
    body = {"amiSelectorTerms": terms, "metadataOptions": {"httpTokens": "required"}, **spec}
    return resource(karpenter.NODE_CLASS, name, metadata={"name": name}, spec=body)


def deployment(
    name: str = "llm", *, replicas: float = 2.0, pool: str = "a", **pod: Any
) -> Resource:
    container = {
        "name": "server",
        "image": f"vllm/vllm-openai:v0.6.2@{DIGEST}",
        "resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}},
    }
    spec = {"containers": [container], "nodeSelector": {"slicewright.io/pool": pool}, **pod}
    return resource(
        DEPLOYMENT,
        name,
        metadata={"name": name, "namespace": "ai"},
        spec={
            "replicas": replicas,
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    )


def container(**more: Any) -> Mapping[str, Any]:
    return {"containers": [{"name": "server", "image": f"a/b@{DIGEST}", **more}]}


def budget(namespace: str = "ai", **selector: Any) -> Resource:
    return resource(
        "kubernetes:policy/v1:PodDisruptionBudget",
        "budget",
        metadata={"namespace": namespace},
        spec={"selector": selector or {"matchLabels": {"app": "llm"}}, "maxUnavailable": 1.0},
    )


def desired(instances: str) -> Resource:
    state = '{"gpus":[{"index":"all","instances":{"%s":2},"mig":true}]}'
    return resource("kubernetes:core/v1:ConfigMap", data={"desired.json": state % instances})


def role(**rule: Any) -> Resource:
    whole = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"], **rule}
    return resource("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", rules=[whole])


def pinned(version: str) -> Resource:
    """NVIDIA's chart with this driver."""
    return resource(
        "kubernetes:helm.sh/v3:Release",
        chart="gpu-operator",
        version="v26.7.0",
        values={"driver": {"enabled": True, "version": version}},
    )


def driven(version: str) -> Mapping[str, Any]:
    """An A100 with GKE's driver."""
    config = {"gpuDriverVersion": version}
    return {"type": "nvidia-tesla-a100", "count": 1.0, "gpuDriverInstallationConfig": config}


def hops(limit: float) -> Resource:
    kind = "aws:ec2/launchTemplate:LaunchTemplate"
    options = {"httpTokens": "required", "httpPutResponseHopLimit": limit}
    return resource(kind, metadataOptions=options)


def template(tokens: str) -> Resource:
    kind = "aws:ec2/launchTemplate:LaunchTemplate"
    return resource(kind, metadataOptions={"httpTokens": tokens})


def mig_layouts(*, devices: str = "{3g.20gb: 2}", more: str = "", name: str = "halves") -> Resource:
    """As mig-manager takes them, for the A100 with 40 GB."""
    text = f"""\
version: v1
mig-configs:
  {name}:
  - device-filter: ['0x20B010DE', '0x20F110DE']
    devices: all
    mig-enabled: true
    mig-devices: {devices}
{more}"""
    return resource("kubernetes:core/v1:ConfigMap", data={"config.yaml": text})


def plugin_config(
    *ways: str,
    resource_name: str = "nvidia.com/gpu",
    replicas: int = 4,
    renamed: str = "false",
    name: str = "a",
) -> Resource:
    """As the device plugin takes it, under the name of a pool."""
    parts = [
        f"  {way}:\n    renameByDefault: {renamed}\n"
        f"    resources: [{{name: {resource_name}, replicas: {replicas}}}]\n"
        for way in ways
    ]
    return resource(
        "kubernetes:core/v1:ConfigMap",
        data={name: "".join(["version: v1\nsharing:\n", *parts]), "not.shared": "version: v1\n"},
    )


def operator(**upgrade: Any) -> Resource:
    """NVIDIA's chart with the driver. upgrade: of its upgradePolicy."""
    driver = {"enabled": True, "upgradePolicy": upgrade}
    return resource(
        "kubernetes:helm.sh/v3:Release",
        chart="oci://mirror.example/nvidia/gpu-operator",
        version="v26.7.0",
        values={"driver": driver},
    )


def without_plugin() -> Resource:
    """NVIDIA's chart without its device plugin."""
    declared = operator()
    values = {**declared.props["values"], "devicePlugin": {"enabled": False}}
    return replace(declared, props={**declared.props, "values": values})


def engine(chart: str) -> Resource:
    """A chart of an engine that shares GPUs by fractions."""
    return resource("kubernetes:helm.sh/v3:Release", chart, chart=chart, version="1.0.0", values={})


def operated(**driver: Any) -> Resource:
    """A GKE pool without Google's device plugin."""
    gpu = {"type": "nvidia-tesla-a100", "count": 1.0, "gpuDriverInstallationConfig": driver}
    labels = {"gke-no-default-nvidia-gpu-device-plugin": "true"}
    return gke_pool(guestAccelerators=[gpu], labels=labels)


def vpc(**props: Any) -> Resource:
    return resource("aws:ec2/vpc:Vpc", "network", **props)


def by_default(made: Resource, **properties: str) -> Resource:
    """Of a provider with these properties."""
    return replace(made, provider={"region": "eu-west-1", **properties})


def stack(provider: str | None) -> Resource:
    return resource("pulumi:pulumi:Stack", "fleet-prod", secretsProvider=provider)


@dataclass(frozen=True)
class Case:
    rule: str
    refused: Sequence[Resource]
    passed: Sequence[Resource]
    says: str
    """Part of the message."""
    settings: Mapping[str, Any] = field(default_factory=dict)


def case(rule: str, refused: Any, passed: Any, says: str, **settings: Any) -> Case:
    def several(given: Any) -> Sequence[Resource]:
        return [given] if isinstance(given, Resource) else given

    return Case(rule, several(refused), several(passed), says, settings)


def eks(*, tags: Mapping[str, str] | None = None, **config: Any) -> Resource:
    own = {"tags": tags} if tags else {}
    return resource(EKS, "main", vpcConfig={"endpointPublicAccess": True, **config}, **own)


def gke(**props: Any) -> Resource:
    return resource(GKE, "main", **props)


def networks(*cidrs: str) -> Mapping[str, Any]:
    return {"cidrBlocks": [{"cidrBlock": cidr} for cidr in cidrs]}


OFFICE, HOME = "203.0.113.0/24", "198.51.100.0/24"
CASES = (
    case("cluster-endpoint", eks(), eks(publicAccessCidrs=[OFFICE]), "whole internet"),
    case(
        "cluster-endpoint", eks(publicAccessCidrs=["::/0"]), eks(endpointPublicAccess=False), "::"
    ),
    case(
        "cluster-endpoint",
        gke(),
        gke(masterAuthorizedNetworksConfig=networks(OFFICE)),
        "whole internet",
    ),
    case(
        "cluster-endpoint",
        gke(masterAuthorizedNetworksConfig=networks(OFFICE, "0.0.0.0/0")),
        gke(privateClusterConfig={"enablePrivateEndpoint": True}),
        "0.0.0.0/0",
    ),
    case(
        "cluster-endpoint",
        eks(publicAccessCidrs=[OFFICE, HOME]),
        eks(publicAccessCidrs=["203.0.113.8/32"]),
        HOME,
        allowed_cidrs=[OFFICE],
    ),
    case("cluster-protected", eks(), replace(eks(), protect=True), "deletion"),
    case("cluster-protected", gke(deletionProtection=False), gke(deletionProtection=True), "del"),
    case(
        "cluster-workload-identity",
        gke(),
        gke(workloadIdentityConfig={"workloadPool": "p.svc.id.goog"}),
        "workload identity",
    ),
    case("template-imdsv2", template("optional"), template("required"), "IMDSv1"),
    case(
        "chart-pinned",
        resource("kubernetes:helm.sh/v3:Release", chart="gpu-operator"),
        resource("kubernetes:helm.sh/v3:Release", chart="gpu-operator", version="v26.7.0"),
        "None",
    ),
    case(
        "chart-pinned",
        resource("kubernetes:helm.sh/v3:Release", version="^26.0.0"),
        resource("kubernetes:helm.sh/v3:Release", version="26.7.0-rc.1"),
        "^26.0.0",
    ),
    case("layouts", gke_pool(), gke_pool(size="3g.20gb"), "1g.5gb", allowed=["3g.20gb"]),
    case("layouts", desired("1g.5gb"), desired("3g.40gb"), "1g.5gb", allowed=["3g.40gb"]),
    case("pool-size", gke_pool(nodeCount=17.0), gke_pool(nodeCount=16.0), "17 nodes"),
    case(
        "pool-size",
        gke_pool(autoscaling={"minNodeCount": 0.0}),
        gke_pool(autoscaling={"maxNodeCount": 4.0}),
        "without a maximum",
    ),
    case(
        "pool-size",
        gke_pool(
            autoscaling={"maxNodeCount": 9.0}, nodeLocations=["us-central1-a", "us-central1-c"]
        ),
        gke_pool(autoscaling={"totalMaxNodeCount": 9.0}),
        "18 nodes",
    ),
    case(
        "pool-size",
        eks_pool(scalingConfig={"maxSize": 3.0}),
        eks_pool(scalingConfig={"maxSize": 2.0}),
        "3 nodes",
        most_nodes=2.0,
    ),
    case("pool-size", node_pool(limits={"nodes": "17"}), node_pool(), "17 nodes"),
    case(
        "pool-size",
        node_pool(limits={"nvidia.com/gpu": "24"}),
        node_pool(limits={"nvidia.com/gpu": "16", "nodes": "9"}),
        "3 nodes",
        most_nodes=2.0,
    ),
    case("pool-size", node_pool(limits={"cpu": "96"}), node_pool(), "without a maximum"),
    case(
        "pool-machine-types",
        node_pool(requirements=[requirement("karpenter.k8s.aws/instance-gpu-count", "8")]),
        node_pool(),
        "names no machine types",
        allowed=["p4d.*"],
    ),
    case(
        "pool-machine-types",
        node_pool(requirements=[requirement("node.kubernetes.io/instance-type", "p5.48xlarge")]),
        node_pool(),
        "p5.48xlarge",
        allowed=["p4d.*"],
    ),
    case(
        "pool-spot",
        node_pool(requirements=[requirement("node.kubernetes.io/instance-type", "p4d.24xlarge")]),
        node_pool(),
        "spot",
        allowed=[],
    ),
    case(
        "pool-labelled",
        node_class(tags={"team": "ml"}),
        node_class(tags={"owner": "ml"}),
        "lack owner",
        required=["owner"],
    ),
    case("pool-startup-taint", node_pool(startup_taints=[]), node_pool(), STARTUP_TAINT_KEY),
    case(
        "template-imdsv2",
        node_class(metadataOptions={"httpTokens": "optional"}),
        node_class(metadataOptions={}),
        "EC2NodeClass",
    ),
    case(
        "karpenter-image-pinned",
        node_class(amiSelectorTerms=[{"alias": "al2023@latest"}]),
        node_class(),
        "al2023@latest",
    ),
    case(
        "karpenter-image-pinned",
        node_class(amiSelectorTerms=[{"tags": {"team": "ml"}}]),
        node_class(amiSelectorTerms=[{"id": "ami-0123456789abcdef0"}]),
        "tags {'team': 'ml'}",
    ),
    case(
        "fleet-size",
        [node_pool(), eks()],
        [node_pool(limits={"nodes": "1"}), eks()],
        "16 GPUs",
        most_gpus=8.0,
    ),
    case(
        "fleet-size",
        [node_pool(), replace(eks(), provider={"region": "us-east-1"})],
        [node_pool(limits={"nodes": "1"}), replace(eks(), provider={"region": "us-east-1"})],
        "USD",
        usd_per_hour=40.0,
    ),
    case(
        "pool-machine-types",
        gke_pool(machineType="a2-highgpu-8g"),
        gke_pool(),
        "a2-highgpu-8g",
        allowed=["a2-highgpu-1g", "g2-*"],
    ),
    case(
        "pool-machine-types",
        eks_pool(instanceTypes=["p4d.24xlarge", "p5.48xlarge"]),
        eks_pool(),
        "p5.48xlarge",
        allowed=["p4d.*"],
    ),
    case(
        "pool-regions",
        gke_pool(nodeLocations=["europe-west4-a"]),
        gke_pool(),
        "europe-west4",
        allowed=["us-*"],
    ),
    case(
        "pool-regions",
        replace(eks_pool(), provider={"region": "us-east-1"}),
        eks_pool(),
        "us-east-1",
        allowed=["eu-*"],
    ),
    case("pool-spot", gke_pool(spot=True), gke_pool("batch", spot=True), "'a'", allowed=["batch*"]),
    case("pool-spot", eks_pool(capacityType="SPOT"), eks_pool(), "spot", allowed=[]),
    case(
        "pool-labelled",
        gke_pool(resourceLabels={"owner": "ml"}),
        gke_pool(resourceLabels={"owner": "ml", "cost-center": "7"}),
        "lacks cost-center",
        required=["owner", "cost-center"],
    ),
    case(
        "pool-labelled",
        eks_pool(),
        replace(eks_pool(), provider={"defaultTags": '{"tags":{"owner":"ml"}}'}),
        "lacks owner",
        required=["owner"],
    ),
    case(
        "resource-labelled",
        vpc(tags={"Name": "main"}),
        [
            vpc(tags={"Name": "main", "owner": "ml"}),
            vpc(tagsAll={"owner": "ml"}),
            by_default(vpc(), defaultTags='{"tags":{"owner":"ml"}}'),
        ],
        "Vpc 'network' lacks the tags owner",
        required=["owner"],
    ),
    case(
        "resource-labelled",
        gke(resourceLabels={"owner": "ml"}),
        [
            gke(resourceLabels={"owner": "ml", "cost-center": "7"}),
            by_default(gke(), defaultLabels='{"owner":"ml","cost-center":"7"}'),
        ],
        "Cluster 'main' lacks the labels cost-center",
        required=["owner", "cost-center"],
    ),
    case(
        "resource-labelled",
        # An empty value assigns no cost.
        [resource("aws:iam/role:Role", tags={"owner": ""}), eks(tags={"owner": "ml"})],
        # Google cannot label them, and a node pool has the labels of its cluster.
        [resource("gcp:compute/network:Network"), gke_pool(), deployment()],
        "Role 'it' lacks",
        required=["owner"],
    ),
    case(
        "role-boundary",
        resource(ROLE, "nodes", name="nodes"),
        [
            resource(ROLE, "nodes", permissionsBoundary=BOUNDARY),
            resource("aws:iam/policy:Policy", "boundary"),
        ],
        "role 'nodes' has no permissions boundary",
        allowed=["arn:aws:iam::*:policy/slicewright-*"],
    ),
    case(
        "role-boundary",
        resource(ROLE, "nodes", permissionsBoundary="arn:aws:iam::aws:policy/AdministratorAccess"),
        resource(ROLE, "nodes", permissionsBoundary=BOUNDARY),
        "has the permissions boundary arn:aws:iam::aws:policy/AdministratorAccess",
        allowed=[BOUNDARY],
    ),
    case(
        "role-boundary",
        resource(ROLE, "nodes", permissionsBoundary=""),
        resource(ROLE, "nodes", permissionsBoundary=BOUNDARY),
        "cluster.permissions_boundary",
        allowed=["*"],
    ),
    case(
        "pool-labelled",
        eks_pool(tags={"team": "ml"}),
        eks_pool(tagsAll={"owner": "ml"}),
        "lacks owner",
        required=["owner"],
    ),
    case("pool-startup-taint", gke_pool(taints=[]), gke_pool(), STARTUP_TAINT_KEY),
    case("pool-startup-taint", eks_pool(taints=[]), eks_pool(), STARTUP_TAINT_KEY),
    case(
        "pool-node-credentials",
        gke_pool(workloadMetadataConfig={"mode": "GCE_METADATA"}),
        gke_pool(),
        "credentials",
    ),
    case(
        "pool-gpus-of-machine",
        gke_pool(machineType="a2-highgpu-2g"),
        gke_pool(),
        "2 x nvidia-tesla-a100",
    ),
    case(
        "pool-gpus-of-machine",
        gke_pool(guestAccelerators=[{"type": "nvidia-l4", "count": 1.0}]),
        gke_pool(machineType="n1-standard-8"),
        "1 x nvidia-l4 on a2-highgpu-1g",
    ),
    case(
        "pool-gpu-taint",
        eks_pool(),
        eks_pool(taints=[{"key": "nvidia.com/gpu", "effect": "NO_SCHEDULE"}]),
        "pods without a GPU",
    ),
    case("pool-capacity-stated", eks_pool(capacityType=None), eks_pool(), "'a'"),
    case(
        "pool-capacity-stated",
        node_pool(requirements=[requirement("node.kubernetes.io/instance-type", "p4d.24xlarge")]),
        node_pool(),
        "'a'",
    ),
    case("driver-pinned", pinned("580"), pinned("580.105.08"), "'580'"),
    case(
        "driver-pinned",
        gke_pool(guestAccelerators=[driven("LATEST")]),
        gke_pool(guestAccelerators=[driven("DEFAULT")]),
        "LATEST",
    ),
    case(
        "pod-host-path",
        deployment(volumes=[{"hostPath": {"path": "/etc"}}, {"emptyDir": {}}]),
        deployment(volumes=[{"emptyDir": {}}]),
        "/etc",
    ),
    case(
        "pod-host-path",
        deployment(volumes=[{"hostPath": {"path": "/models"}}]),
        deployment("reader", volumes=[{"hostPath": {"path": "/models"}}]),
        "/models",
        exempt=["ai/reader"],
    ),
    case(
        "pod-capabilities",
        deployment(),
        deployment(**container(securityContext={"capabilities": {"drop": ["ALL"]}})),
        "server",
    ),
    case(
        "pod-capabilities",
        deployment(
            **container(securityContext={"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}})
        ),
        deployment("tuner"),
        "keep or add",
        exempt=["ai/tuner"],
    ),
    case("rbac-nodes", role(verbs=["get", "patch"]), role(), "patch nodes"),
    case(
        "rbac-nodes",
        role(resources=["nodes/status"], verbs=["update"]),
        role(apiGroups=["metrics.k8s.io"], verbs=["update"]),
        "nodes/status",
        exempt=["autoscaler"],
    ),
    case("template-hop-limit", hops(2.0), hops(1.0), "2 hops"),
    case(
        "template-hop-limit",
        node_class(metadataOptions={"httpPutResponseHopLimit": 3.0}),
        node_class(),
        "EC2NodeClass",
    ),
    case("partition-size-exists", gke_pool(size="1g.10gb"), gke_pool(size="7g.40gb"), "1g.10gb"),
    case(
        "one-partitioner",
        gke_pool(labels={"nvidia.com/mig.config": "all-1g.5gb"}),
        gke_pool(size=None, labels={"nvidia.com/mig.config": "all-1g.5gb"}),
        "mig-manager",
    ),
    case(
        "fleet-size",
        [eks_pool("a"), eks_pool("b"), eks_pool("c")],
        [eks_pool("a"), eks_pool("b")],
        "48 GPUs",
        most_gpus=32.0,
    ),
    case(
        "fleet-size",
        gke_pool(nodeCount=5.0),
        gke_pool(nodeCount=4.0),
        "18.37 USD",
        usd_per_hour=15.0,
    ),
    case(
        "fleet-size",
        gke_pool(nodeLocations=["europe-north2-a"]),
        gke_pool(),
        "is unknown",
        usd_per_hour=100.0,
    ),
    case("image-digest", deployment(**container(image="a/b:1.2")), deployment(), "a/b:1.2"),
    case(
        "image-digest",
        deployment(initContainers=[{"image": "busybox"}]),
        deployment(initContainers=[{"image": "cos-nvidia-installer:fixed"}]),
        "busybox",
    ),
    case(
        "image-registry",
        deployment(),
        deployment(**container(image=f"nvcr.io/nvidia/tritonserver@{DIGEST}")),
        "vllm/vllm-openai",
        allowed=["nvcr.io/*"],
    ),
    case(
        "pod-privilege",
        deployment(**container(securityContext={"privileged": True})),
        deployment(**container(securityContext={"privileged": False})),
        "server",
    ),
    case("pod-privilege", deployment(hostPID=True), deployment(hostPID=False), "hostPID"),
    case(
        "pod-privilege",
        deployment(hostNetwork=True),
        deployment("dcgm", hostNetwork=True),
        "hostNetwork",
        exempt=["ai/dcgm"],
    ),
    case("rbac-wildcard", role(verbs=["*"]), role(), "verbs"),
    case(
        "rbac-wildcard", role(apiGroups=["*"], resources=["*"]), role(verbs=["patch"]), "resources"
    ),
    case(
        "rbac-wildcard",
        resource(
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
            roleRef={"name": "cluster-admin"},
        ),
        resource(
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding", roleRef={"name": "view"}
        ),
        "cluster-admin",
    ),
    case("disruption-budget", deployment(), [deployment(), budget()], "PodDisruptionBudget"),
    case("disruption-budget", [deployment(), budget("other")], deployment(replicas=1.0), "ai/llm"),
    case(
        "disruption-budget",
        [deployment(), budget(matchLabels={"app": "other"})],
        [
            deployment(),
            budget(matchExpressions=[{"key": "app", "operator": "In", "values": ["llm"]}]),
        ],
        "2 replicas",
    ),
    case(
        "spot-workloads",
        [gke_pool(spot=True), deployment(replicas=1.0)],
        [gke_pool(spot=True), deployment(replicas=2.0)],
        "one replica",
    ),
    case(
        "spot-workloads",
        [node_pool(requirements=[requirement("karpenter.sh/capacity-type", "spot")]), deployment()],
        [node_pool(), deployment()],
        "is listed in may_not_be_lost",
        may_not_be_lost=["ai/*"],
    ),
    case(
        "spot-workloads",
        [eks_pool(capacityType="SPOT"), deployment()],
        [eks_pool(), deployment()],
        "is listed in may_not_be_lost",
        may_not_be_lost=["ai/*"],
    ),
    case("layouts-fit", mig_layouts(devices="{3g.20gb: 3}"), mig_layouts(), "A100"),
    case("layouts-fit", mig_layouts(devices="{3g.40gb: 1}"), mig_layouts(), "3g.40gb"),
    case(
        "layouts-fit",
        mig_layouts(devices="{1c.3g.20gb: 7}"),
        mig_layouts(devices="{1c.3g.20gb: 6}"),
        "3g.20gb",
    ),
    case("layouts-fit", mig_layouts(devices="[3g.20gb"), mig_layouts(), "cannot read"),
    case("layouts-fit", mig_layouts(devices="{3g.20gb: two}"), mig_layouts(), "counts"),
    case(
        "layouts-fit",
        mig_layouts(more="  halves: [{devices: all, mig-enabled: false}]\n"),
        mig_layouts(more="  none: [{devices: all, mig-enabled: false}]\n"),
        "halves appears twice",
    ),
    case("layouts-fit", mig_layouts(name="3g.20gb+me"), mig_layouts(name="3g.20gb.me"), "label"),
    case(
        "layouts-fit",
        mig_layouts(more="  any: [{devices: all, mig-devices: {9g.1gb: 1}}]\n"),
        mig_layouts(more="  any: [{devices: all, mig-devices: {7g.80gb: 1}}]\n"),
        "no GPU",
    ),
    case(
        "sharing-one-way",
        plugin_config("timeSlicing", "mps"),
        plugin_config("mps"),
        "mps and by timeSlicing",
    ),
    case(
        "sharing-one-way",
        plugin_config("mps", resource_name="nvidia.com/mig-1g.5gb"),
        plugin_config("timeSlicing", resource_name="nvidia.com/mig-1g.5gb"),
        "partitions by time-slicing",
    ),
    case(
        "sharing-replicas",
        plugin_config("timeSlicing", replicas=17),
        plugin_config("timeSlicing", replicas=16),
        "17 times",
    ),
    case(
        "sharing-replicas",
        plugin_config("mps", replicas=9),
        plugin_config("mps", replicas=8),
        "most_replicas is 8",
        most_replicas=8.0,
    ),
    case(
        "sharing-resource-name",
        [plugin_config("timeSlicing"), eks_pool(scalingConfig={"minSize": 2.0, "maxSize": 2.0})],
        [plugin_config("timeSlicing"), eks_pool()],
        "renameByDefault",
    ),
    case(
        "sharing-resource-name",
        plugin_config("mps"),
        plugin_config("mps", renamed="true"),
        "whole device",
    ),
    case(
        "one-device-plugin",
        [engine("hami"), operator()],
        [engine("hami"), without_plugin()],
        "devicePlugin.enabled: false",
    ),
    case(
        "one-device-plugin",
        [engine("hami"), engine("volcano-vgpu-device-plugin"), without_plugin()],
        [engine("volcano"), engine("volcano-vgpu-device-plugin"), without_plugin()],
        "several device plugins",
    ),
    case(
        "driver-upgrade", operator(maxParallelUpgrades=0.0, maxUnavailable="50%"), operator(), "0"
    ),
    case(
        "driver-upgrade",
        operator(maxParallelUpgrades=5.0),
        operator(maxParallelUpgrades=5.0, maxUnavailable=4.0),
        "than 4",
    ),
    case(
        "driver-upgrade",
        operator(maxParallelUpgrades=0.0, maxUnavailable="11%"),
        operator(maxParallelUpgrades=0.0, maxUnavailable="10%"),
        "11%",
        most_percent=10.0,
    ),
    case(
        "driver-upgrade",
        resource(
            "kubernetes:nvidia.com/v1:ClusterPolicy",
            spec={"driver": {"upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 2.0}}},
        ),
        resource(
            "kubernetes:nvidia.com/v1:ClusterPolicy",
            spec={"driver": {"upgradePolicy": {"autoUpgrade": False, "maxParallelUpgrades": 2.0}}},
        ),
        "Upgrades 2",
        most_nodes=1.0,
    ),
    case(
        "one-driver",
        operated(gpuDriverVersion="LATEST"),
        operated(gpuDriverVersion="INSTALLATION_DISABLED"),
        "LATEST",
    ),
    case("one-driver", operated(), gke_pool(), "DEFAULT"),
    case(
        "stack-secrets",
        stack("passphrase"),
        stack("awskms://alias/pulumi?region=eu-west-1"),
        "by passphrase",
        allowed=["awskms://*", "gcpkms://*"],
    ),
    case(
        "stack-secrets", stack(None), stack("gcpkms://k"), "provider is unknown", allowed=["gcp*"]
    ),
)


def found(
    rule: ResourceRule | StackRule, resources: Sequence[Resource], given: Mapping[str, Any]
) -> list[str]:
    """What a rule says of these resources."""
    settings = complete_settings(rule, given)
    match rule:
        case ResourceRule():
            return [message for one in resources for message in rule.check(one, settings)]
        case StackRule():
            return [message for _, message in rule.check(resources, settings)]
