"""The nodes that an EKS node group makes: names, labels, taints, sizes as EKS gives them."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Collection

from kubeapi import JsonObject
from rehearsal.clouds.aws.ec2 import find_subnet
from rehearsal.clouds.aws.launch_templates import (
    NodeSettings,
    find_template,
    node_settings,
    template_data,
)
from rehearsal.clouds.core.context import Context
from rehearsal.clouds.core.machines import eks_reserved_memory_ki, machines, reserved_cpu_millis
from rehearsal.clouds.core.node_group import NoRoom, Target
from rehearsal.clouds.core.node_object import Build, kubernetes_taints, node_object

GROUPS = "eks/nodegroups"
DRIVER = "580.159.03"


def target(context: Context, item: JsonObject) -> Target:
    """item: the stored group: `nodegroup` in API form, region, generation."""
    group, region = item["nodegroup"], item["region"]
    subnets = sorted(group["subnets"])
    size = group["scalingConfig"]["desiredSize"]
    settings = settings_of(context, item)

    def node(name: str, place: str, index: int) -> JsonObject:
        return _node(context, item, settings, name=name, place=place, index=index)

    return Target(
        # An auto scaling group spreads evenly over its subnets.
        places={s: size // len(subnets) + (i < size % len(subnets)) for i, s in enumerate(subnets)},
        generation=item["generation"],
        labels=group.get("labels", {}),
        taints=kubernetes_taints(group.get("taints", [])),
        new_name=lambda place, taken: _new_name(context, region, place, taken),
        node=node,
        surge=(group.get("updateConfig") or {}).get("updateStrategy") != "MINIMAL",
    )


def settings_of(context: Context, item: JsonObject) -> NodeSettings:
    template = item["nodegroup"].get("launchTemplate")
    if not template:
        return NodeSettings()
    _, found = find_template(context.store, item["region"], template["id"], None)
    return node_settings(template_data(found, template["version"]))


def instance_type(context: Context, item: JsonObject) -> str:
    types = item["nodegroup"].get("instanceTypes") or []
    if types:
        return str(types[0])
    template = item["nodegroup"].get("launchTemplate")
    if template:
        _, found = find_template(context.store, item["region"], template["id"], None)
        return str(template_data(found, template["version"]).get("InstanceType") or "t3.medium")
    return "t3.medium"


def _domain(region: str) -> str:
    return "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"


def _new_name(context: Context, region: str, place: str, ours: Collection[str]) -> str:
    """Named after the first free address of the subnet; AWS keeps the first four and the last."""
    subnet = find_subnet(context, region, place)
    if subnet is None:
        raise NoRoom(f"Ec2SubnetNotFound: the subnet ID '{place}' does not exist")
    block = ipaddress.IPv4Network(subnet["CidrBlock"])
    taken = {n["name"] for g in context.store.values(GROUPS) for n in g["nodes"]} | set(ours)
    for offset in range(10, block.num_addresses - 1):
        name = f"ip-{str(block[offset]).replace('.', '-')}.{_domain(region)}"
        if name not in taken:
            return name
    raise NoRoom(f"InsufficientFreeAddresses: subnet {place} ({block}) has no free address")


def _node(
    context: Context, item: JsonObject, settings: NodeSettings, *, name: str, place: str, index: int
) -> JsonObject:
    group, region = item["nodegroup"], item["region"]
    kind = instance_type(context, item)
    machine = machines("eks")[kind]
    subnet = find_subnet(context, region, place) or {
        "AvailabilityZone": f"{region}a",
        "AvailabilityZoneId": "az1",
    }
    pods = settings.max_pods or machine.pods or 110
    instance = (
        "i-0"
        + hashlib.sha256(f"{item['key']}/{name}/{item['generation']}".encode()).hexdigest()[:16]
    )
    # Taints of the API travel as a kubelet flag; where user data sets the flag too, the later one
    # counts, and that is the user's.
    taints = kubernetes_taints(group.get("taints", []))
    if settings.taints is not None:
        declared = {(k, e) for k, _, e in settings.taints}
        taints = [t for t in taints if (t["key"], t["effect"]) not in declared]
        taints += [{"key": k, "value": v, "effect": e} for k, v, e in settings.taints]
    zone = subnet["AvailabilityZone"]
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": kind,
        "beta.kubernetes.io/os": "linux",
        "eks.amazonaws.com/capacityType": group["capacityType"],
        "eks.amazonaws.com/nodegroup": group["nodegroupName"],
        "eks.amazonaws.com/nodegroup-image": _image(group),
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "k8s.io/cloud-provider-aws": hashlib.md5(
            item["cluster"].encode(), usedforsecurity=False
        ).hexdigest(),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": kind,
        "topology.k8s.aws/zone-id": subnet["AvailabilityZoneId"],
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
    }
    if group.get("launchTemplate"):
        labels["eks.amazonaws.com/sourceLaunchTemplateId"] = group["launchTemplate"]["id"]
        labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = group["launchTemplate"]["version"]
    return node_object(
        Build(
            name=name,
            labels=labels | dict(settings.labels) | dict(group.get("labels", {})),
            taints=taints,
            provider_id=f"aws:///{zone}/{instance}",
            vcpu=machine.vcpu,
            reserved_cpu_millis=reserved_cpu_millis(machine.vcpu),
            memory_ki=machine.memory_ki,
            reserved_memory_ki=eks_reserved_memory_ki(pods),
            disk_gb=int(group.get("diskSize") or _template_disk(context, item) or 20),
            pods=pods,
            kubelet_version=f"v{item['kubelet_version']}",
            os_image=_os_image(group["amiType"]),
            kernel="6.12.46-66.121.amzn2023.x86_64"
            if group["version"] != "1.36"
            else "6.18.5-12.amzn2023.x86_64",
            runtime="containerd://2.1.5",
            machine=_machine(context, item, kind, index),
        )
    )


def _template_disk(context: Context, item: JsonObject) -> int | None:
    template = item["nodegroup"].get("launchTemplate")
    if not template:
        return None
    _, found = find_template(context.store, item["region"], template["id"], None)
    mappings = template_data(found, template["version"]).get("BlockDeviceMappings") or []
    return next(
        (int(m["Ebs"]["VolumeSize"]) for m in mappings if m.get("Ebs", {}).get("VolumeSize")), None
    )


def _image(group: JsonObject) -> str:
    return (
        "ami-0"
        + hashlib.sha256(f"{group['amiType']}/{group['releaseVersion']}".encode()).hexdigest()[:16]
    )


def _os_image(ami_type: str) -> str:
    if ami_type.startswith("BOTTLEROCKET"):
        return "Bottlerocket OS 1.50.0 (aws-k8s-nvidia)"
    return "Amazon Linux 2023.9.20260714" if ami_type != "CUSTOM" else "Ubuntu 24.04.3 LTS"


def _machine(context: Context, item: JsonObject, kind: str, index: int) -> JsonObject | None:
    machine = machines("eks")[kind]
    if not machine.gpu:
        return None
    group = item["nodegroup"]
    found: JsonObject = {
        "cloud": "eks",
        "gpu_model": machine.gpu,
        "gpu_count": machine.gpu_count,
        # Only the accelerated images carry a driver.
        "driver_version": DRIVER if "NVIDIA" in group["amiType"] else None,
    }
    fault = context.faults.of_node(
        pools=[group["nodegroupName"], group.get("labels", {}).get("slicewright.io/pool", "")],
        index=index,
    )
    if fault:
        found["fault"] = fault
    return found
