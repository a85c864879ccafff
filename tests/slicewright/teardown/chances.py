"""What is left in a cluster, and which calls of a cloud fail, drawn from a seed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Final

from slicewright.rehearsal.clouds.core.fake_control_planes import FakeNodes
from slicewright.rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS
from slicewright.teardown.subject import Cloud
from tests.slicewright.teardown.stacks import claim, ingress, service, snapshot, volume

_FAULTS: Final = {
    "eks": (
        "ec2.DeleteNetworkInterface",
        "ec2.DeleteSecurityGroup",
        "ec2.DeleteSnapshot",
        "ec2.DeleteVolume",
        "ec2.DescribeNetworkInterfaces",
        "ec2.DescribeSecurityGroups",
        "ec2.DescribeSnapshots",
        "ec2.DeleteSubnet",
        "ec2.DeleteVpc",
        "eks.DeleteCluster",
        "eks.DescribeCluster",
        "elb.DeleteLoadBalancer",
        "elb.DescribeTags",
        "elbv2.DeleteTargetGroup",
        "elbv2.DescribeLoadBalancers",
        "elbv2.DescribeTargetGroups",
        "logs.DeleteLogGroup",
    ),
    "gke": (
        "compute.disks.aggregatedList",
        "compute.disks.delete",
        "compute.snapshots.list",
        "compute.snapshots.delete",
        "compute.addresses.aggregatedList",
        "compute.addresses.delete",
        "compute.firewalls.delete",
        "compute.firewalls.list",
        "compute.backendServices.aggregatedList",
        "compute.backendServices.delete",
        "compute.forwardingRules.delete",
        "compute.globalAddresses.delete",
        "compute.globalForwardingRules.delete",
        "compute.sslCertificates.delete",
        "compute.targetHttpProxies.aggregatedList",
        "compute.targetHttpsProxies.delete",
        "compute.urlMaps.aggregatedList",
        "compute.urlMaps.delete",
        "compute.networkEndpointGroups.aggregatedList",
        "compute.networks.delete",
        "compute.subnetworks.delete",
        "compute.targetPools.delete",
        "container.projects.locations.clusters.delete",
    ),
}
_ALWAYS: Final = {
    "eks": (
        "ec2.DeleteSubnet",
        "ec2.DeleteVpc",
        "ec2.DescribeNetworkInterfaces",
        "ec2.DescribeSecurityGroups",
        "eks.DeleteCluster",
        "eks.DescribeCluster",
    ),
    "gke": (
        "compute.addresses.aggregatedList",
        "compute.disks.aggregatedList",
        "compute.firewalls.list",
        "compute.networks.delete",
        "compute.subnetworks.delete",
        "container.projects.locations.clusters.delete",
    ),
}
"""Of these: those that every destruction calls, whatever there is to delete."""
_KINDS: Final = ("throttling", "connection-reset", "api-error")


def leave(
    objects: FakeNodes, cloud: Cloud, chance: random.Random, *, project: str = "acme"
) -> None:
    """What people made in the cluster. project: of GKE."""
    on_eks = cloud == "eks"
    asked = (
        {},
        {"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}
        if on_eks
        else {"networking.gke.io/load-balancer-type": "Internal"},
        {} if on_eks else {"cloud.google.com/neg": '{"ingress": true}'},
    )
    for number in range(chance.randint(0, 4)):
        one = service(f"s{number}", **chance.choice(asked))
        objects.add_object("/api/v1/services", one)
    for number in range(chance.randint(0, 3)):
        name = f"v{number}"
        source = (
            {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{number:017x}"}
            if on_eks
            else {
                "driver": "pd.csi.storage.gke.io",
                "volumeHandle": f"projects/{project}/zones/us-central1-a/disks/{name}",
            }
        )
        policy = chance.choice(("Delete", "Retain"))
        objects.add_object("/api/v1/persistentvolumeclaims", claim(name))
        objects.add_object("/api/v1/persistentvolumes", volume(name, source, policy=policy))
        # Of a disk that its cluster deletes, Google shows nothing that tells whose it was.
        for copy in range(chance.randint(0, 2) if on_eks or policy == "Retain" else 0):
            objects.add_object(VOLUME_SNAPSHOTS, snapshot(f"{name}-{copy}", source))
    if not on_eks and chance.random() < 0.5:
        objects.add_object(
            "/apis/networking.k8s.io/v1/ingresses", ingress("web", "gke-h100", "eks-a100")
        )


def break_calls(environment: Path, cloud: Cloud, chance: random.Random) -> None:
    """At least one of them is met."""
    methods = chance.sample(_FAULTS[cloud], chance.randint(1, 5))
    if not set(methods) & set(_ALWAYS[cloud]):
        methods.append(chance.choice(_ALWAYS[cloud]))
    faults = []
    for method in methods:
        kind = chance.choice(_KINDS)
        fault = {"fault": kind, "method": method, "times": chance.randint(1, 4)}
        if kind == "connection-reset":
            fault["carried_out"] = chance.random() < 0.5
        faults.append(fault)
    (environment / "faults.json").write_text(json.dumps(faults))
