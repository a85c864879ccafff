"""The rights that are listed for a stack are exactly those that its life uses: committed stacks,
created, changed in nothing, refreshed and destroyed by the real engine over the simulated clouds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from slicewright.rehearsal.clouds.aws.account import ORDINARY_VCPUS
from slicewright.rehearsal.clouds.core import call_log
from slicewright.rehearsal.clouds.gcp.projects import project_of
from tests.infra.cloud_engine import BOUNDARY, PROJECT, REGION, CloudEngine
from tests.infra.existing_vpc import ExistingCluster, ExistingVpc, role_of_pods
from tests.infra.google_project import let_gke_make_networks, make_cluster, make_network, share
from tests.rights_used import differences

pytestmark = pytest.mark.long(
    "the rights of gke-h100 and of eks-a100, in their whole runs: "
    "tests/rehearsal/scenario/whole_run/test_gke_fleet.py and "
    "tests/rehearsal/scenario/whole_run/test_eks_fleet.py"
)

BLOCK = "capacity-block"
EVERYTHING = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
BOUNDED = {"permissions_boundary": BOUNDARY}
HOST = "net-host-1"
NETWORK = {"vpc": "corporate", "subnet": "gpu", "pods_range": "pods", "services_range": "services"}
ROOT = Path(__file__).resolve().parents[3]


def committed(stack: str) -> dict[str, Any]:
    text = (ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)["config"]["slicewright:fleet"]
    return found


def autoscaled() -> dict[str, Any]:
    """What makes the program ask EKS for the live counts, and tag node groups."""
    fleet = committed("eks-a100")
    fleet["node_pools"][0]["nodes"] = {"min": 0, "max": 1}
    return fleet


def templated() -> dict[str, Any]:
    """A pool with a launch template, tags on its instances, and a placement group."""
    fleet = committed("eks-a100")
    tags = {"team": "ml"}
    more = {"instance_store": "raid0", "instance_tags": tags, "placement": "cluster"}
    fleet["node_pools"][0] |= more
    return fleet


def tagged() -> dict[str, Any]:
    """Tags of all that it makes."""
    fleet = with_access()
    fleet["cluster"]["tags"] = {"owner": "ml"}
    return fleet


def labelled() -> dict[str, Any]:
    fleet = committed("gke-h100")
    fleet["cluster"]["resource_labels"] = {"owner": "ml"}
    return fleet


def private() -> dict[str, Any]:
    """A GKE cluster with Cloud NAT, and with a control plane that is reached by its DNS name."""
    fleet = committed("gke-h100")
    fleet["cluster"] |= {"private_nodes": True, "control_plane": {"dns_endpoint": True}}
    return fleet


def behind_nat_gateways() -> dict[str, Any]:
    """What makes NAT gateways, and routes to them that change."""
    fleet = committed("eks-a100")
    fleet["cluster"]["network"] = "private"
    return fleet


def with_a_key() -> dict[str, Any]:
    """A KMS key for Kubernetes secrets, and add-ons beyond those of every cluster."""
    fleet = committed("eks-a100")
    key = f"arn:aws:kms:{fleet['cluster']['region']}:111122223333:key/a"
    fleet["cluster"] |= {"secrets_key": key, "addons": {"eks-pod-identity-agent": {}}}
    return fleet


def with_an_autoscaler() -> dict[str, Any]:
    """A role for pods, with a policy of its own."""
    fleet = autoscaled()
    fleet["cluster"] |= {"version": "1.36", "autoscaler": "cluster-autoscaler", **BOUNDED}
    return fleet


def with_karpenter() -> dict[str, Any]:
    """A role for pods, and no node group for the pool."""
    fleet = autoscaled()
    fleet["cluster"] |= {"version": "1.36", "autoscaler": "karpenter", **BOUNDED}
    fleet["node_pools"][0]["release_version"] = "1.36.0-20260714"
    return fleet


def with_volumes() -> dict[str, Any]:
    """An add-on with an IAM role, and a boundary for the roles."""
    fleet = committed("eks-a100")
    fleet["cluster"] |= BOUNDED
    fleet["cluster"]["addons"] = {"aws-ebs-csi-driver": {}}
    return fleet


def with_roles_of_pods(engine: CloudEngine) -> dict[str, Any]:
    """A role that is there, for the pods of a service account."""
    fleet = committed("eks-a100")
    role = {"role": role_of_pods(engine, "trainer")}
    fleet["cluster"]["pod_identities"] = [{"namespace": "a", "service_account": "b", **role}]
    return fleet


def with_access() -> dict[str, Any]:
    """Access entries, with policies and with groups."""
    fleet = committed("eks-a100")
    role = "arn:aws:iam::111122223333:role"
    view = {"name": "AmazonEKSViewPolicy", "namespaces": ["training"]}
    entries = [
        {"principal": f"{role}/ml", "policies": [view]},
        {"principal": f"{role}/ops", "groups": ["ops"]},
    ]
    fleet["cluster"] |= {"access": {"entries": entries}}
    return fleet


def with_machines_of_many_kinds(engine: CloudEngine) -> dict[str, Any]:
    """Reserved machines, EFA, Bottlerocket, several machine types, and disks with a key."""
    zones = engine.cloud.call("ec2", "DescribeAvailabilityZones", {"region": REGION}, {})
    (first,) = (z for z in zones["AvailabilityZones"] if z["ZoneName"] == f"{REGION}a")
    place = {"zone": first["ZoneId"], "count": 1}
    kinds = {"instance_type": "g6.xlarge"}, {"instance_type": "p5.48xlarge", "kind": BLOCK}
    reserved = {f"cr-0123456789abcdef{i}": kind | place for i, kind in enumerate(kinds)}
    engine.account(vcpus=dict.fromkeys(ORDINARY_VCPUS, 10_000), reservations=reserved)
    key = f"arn:aws:kms:{REGION}:111122223333:key/1234abcd"
    of_reservation, of_block = reserved
    special: dict[str, dict[str, Any]] = {
        "reserved": {"capacity": {"mode": "reservation", "reservation": of_reservation}},
        "block": {
            "machine_type": "p5.48xlarge",
            "capacity": {"mode": BLOCK, "reservation": of_block},
        },
        "efa": {"machine_type": "p4d.24xlarge", "efa": True},
        "bottlerocket": {"ami_type": "BOTTLEROCKET_x86_64_NVIDIA"},
        "several": {"other_machine_types": ["g6.2xlarge"]},
        "encrypted": {"disk": {"encrypted": True, "kms_key": key}},
    }
    common = {"machine_type": "g6.xlarge", "nodes": {"count": 1}, "zones": [f"{REGION}a"]}
    return {
        "cloud": "eks",
        "cluster": {
            "name": "c",
            "region": REGION,
            "zones": [f"{REGION}a", f"{REGION}b"],
            "network": "private",
        },
        "node_pools": [{"name": name, **common, **keys} for name, keys in special.items()],
    }


def with_what_a_cluster_of_google_can_have(engine: CloudEngine) -> dict[str, Any]:
    """A network that exists, keys, windows, metrics and logs, and a network between GPUs."""
    make_network(engine.cloud, PROJECT, "us-central1")
    let_gke_make_networks(engine.cloud, PROJECT)
    fleet = committed("gke-h100")
    system = {"components": ["SYSTEM_COMPONENTS"]}
    key = "projects/keys-1/locations/us-central1/keyRings/gke/cryptoKeys/k"
    fleet["cluster"] |= {
        "network": NETWORK,
        "kms_key": key,
        "secrets_key": key,
        "maintenance": {"window": {"mode": "daily", "start": "03:00"}},
        "monitoring": system,
        "logging": system,
    }
    h200 = {
        "name": "h200",
        "machine_type": "a3-ultragpu-8g",
        "zones": ["us-central1-b"],
        "nodes": {"count": 1},
        "disk": {"type": "hyperdisk-balanced"},
        "gpu_network": "dranet",
    }
    fleet["node_pools"].append(h200)
    return fleet


def with_networks_for_gpus() -> dict[str, Any]:
    """VPCs of the stack's own, with a firewall rule each."""
    fleet = committed("gke-h100")
    fleet["node_pools"][0] |= {"gpu_network": "tcpx", "partition": "none"}
    return fleet


def in_a_cluster_of_google_that_exists(engine: CloudEngine) -> dict[str, Any]:
    make_network(engine.cloud, PROJECT, "us-central1")
    make_cluster(engine.cloud, PROJECT, "us-central1", "main")
    fleet = committed("gke-h100")
    fleet["cluster"]["existing"] = True
    return fleet


@pytest.mark.parametrize(
    "made_for",
    [
        with_machines_of_many_kinds,
        with_what_a_cluster_of_google_can_have,
        in_a_cluster_of_google_that_exists,
    ],
)
def test_the_calls_of_a_stack_that_needs_something_before_need_the_listed_rights(
    engine: CloudEngine, made_for: Callable[[CloudEngine], dict[str, Any]]
) -> None:
    check_whole_life(engine, made_for(engine))


@pytest.mark.parametrize(
    "fleet",
    [
        pytest.param(private(), id="gke-h100-private"),
        pytest.param(committed("gke-h100"), id="gke-h100"),
        pytest.param(with_networks_for_gpus(), id="gke-h100-gpu-networks"),
        pytest.param(committed("eks-a100"), id="eks-a100"),
        pytest.param(autoscaled(), id="eks-a100-autoscaled"),
        pytest.param(with_an_autoscaler(), id="eks-a100-autoscaler"),
        pytest.param(with_karpenter(), id="eks-a100-karpenter"),
        pytest.param(templated(), id="eks-a100-templated"),
        pytest.param(with_a_key(), id="eks-a100-key"),
        pytest.param(with_access(), id="eks-a100-access"),
        pytest.param(tagged(), id="eks-a100-tags"),
        pytest.param(labelled(), id="gke-h100-labels"),
        pytest.param(with_volumes(), id="eks-a100-volumes"),
        pytest.param(behind_nat_gateways(), id="eks-a100-private"),
    ],
)
def test_the_calls_of_a_whole_life_need_the_listed_rights_and_all_of_them(
    engine: CloudEngine, fleet: dict[str, Any]
) -> None:
    check_whole_life(engine, fleet)


def test_the_calls_of_a_stack_with_roles_of_pods_need_the_listed_rights(
    engine: CloudEngine,
) -> None:
    check_whole_life(engine, with_roles_of_pods(engine))


def check_whole_life(engine: CloudEngine, fleet: dict[str, Any]) -> None:
    """AWS refuses what the printed policy does not allow."""
    planned = plan.read(json.dumps(fleet), stack_file.Source("fleet.json", fleet))
    assert isinstance(planned, plan.GkeFleetPlan | plan.EksFleetPlan)
    if isinstance(planned, plan.EksFleetPlan):
        engine.call_with(manifests.aws_policy(planned), boundary=manifests.boundary_policy(planned))
    earlier = len(call_log.read(engine.directory.parent))
    engine.deploy_and_settle(fleet)
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    engine.call_with(EVERYTHING)
    assert differences(planned, call_log.read(engine.directory.parent)[earlier:]) == []


def test_a_stack_in_a_cluster_that_exists_has_no_right_to_change_it(engine: CloudEngine) -> None:
    cluster = ExistingCluster(engine, ExistingVpc(engine))
    fleet = {
        "cloud": "eks",
        "cluster": {
            "name": "c",
            "region": REGION,
            "existing": True,
            "access": {
                "entries": [{"principal": "arn:aws:iam::111122223333:role/ml", "groups": ["ml"]}]
            },
        },
        "node_pools": [{"name": "a", "machine_type": "g6.xlarge", "nodes": {"count": 1}}],
    }
    check_whole_life(engine, fleet)
    planned = plan.read(json.dumps(fleet), stack_file.Source("fleet.json", fleet))
    assert isinstance(planned, plan.EksFleetPlan)
    allowed = {a for one in manifests.aws_policy(planned)["Statement"] for a in one["Action"]}
    assert not {a for a in allowed if "Cluster" in a} - {"eks:DescribeCluster"}
    assert not {a for a in allowed if "Addon" in a}
    assert "control-plane" not in json.dumps(manifests.aws_policy(planned))
    assert cluster.seen() == cluster.before


def test_a_stack_in_a_shared_vpc_needs_no_right_in_the_host_project(engine: CloudEngine) -> None:
    """Google's agents need theirs there: without their roles, `up` fails."""
    make_network(engine.cloud, HOST, "us-central1")
    fleet = committed("gke-h100")
    vpc = f"projects/{HOST}/global/networks/corporate"
    fleet["cluster"]["network"] = {**NETWORK, "vpc": vpc}
    refused = engine.up(fleet)
    assert refused.code != 0
    assert f"not a service project of the Shared VPC host project {HOST}" in refused.output
    assert engine.destroy().code == 0
    share(engine.cloud, host=HOST, project=PROJECT)
    earlier = len(call_log.read(engine.directory.parent))
    check_whole_life(engine, fleet)
    calls = call_log.read(engine.directory.parent)[earlier:]
    of_services = [call for call in calls if call.service in ("compute", "container", "iam")]
    assert {project_of(call.parameters) for call in of_services} == {PROJECT}
    planned = plan.read(json.dumps(fleet), stack_file.Source("fleet.json", fleet))
    assert isinstance(planned, plan.GkeFleetPlan)
    allowed = manifests.google_role(planned)["includedPermissions"]
    of_networks = ("compute.firewalls.", "compute.networks.", "compute.subnetworks.")
    assert not [right for right in allowed if right.startswith(of_networks)]


def test_a_stack_in_subnets_that_exist_has_no_right_to_change_a_network(
    engine: CloudEngine,
) -> None:
    network = ExistingVpc(engine)
    fleet = {
        "cloud": "eks",
        "cluster": {
            "name": "c",
            "region": REGION,
            "network": {"mode": "existing", "subnets": [*network.private.values()]},
        },
        "node_pools": [{"name": "a", "machine_type": "g6.xlarge", "nodes": {"count": 1}}],
    }
    check_whole_life(engine, fleet)
    planned = plan.read(json.dumps(fleet), stack_file.Source("fleet.json", fleet))
    assert isinstance(planned, plan.EksFleetPlan)
    allowed = {a for one in manifests.aws_policy(planned)["Statement"] for a in one["Action"]}
    assert {a for a in allowed if a.startswith("ec2:")} == {"ec2:DescribeSubnets"}
    assert network.seen() == network.before
