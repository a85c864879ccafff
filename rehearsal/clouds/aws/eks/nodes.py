"""The nodes of an EKS node group: their names, labels, taints and sizes as EKS gives them."""

from __future__ import annotations

import hashlib
import ipaddress
from collections import Counter
from collections.abc import Collection

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.bottlerocket_data import (
    bottlerocket_gpus,
    is_bottlerocket,
)
from slicewright.rehearsal.clouds.aws.ec2.route_tables import nat_gateway_of
from slicewright.rehearsal.clouds.aws.ec2.subnets import find_subnet
from slicewright.rehearsal.clouds.aws.ec2.user_data import (
    NodeConfig,
    node_config,
    shell_scripts,
)
from slicewright.rehearsal.clouds.aws.eks.capacity import Chooser
from slicewright.rehearsal.clouds.aws.eks.group_instances import instance_id
from slicewright.rehearsal.clouds.aws.eks.template_data import data_of, types_of
from slicewright.rehearsal.clouds.aws.machines import machines, reserved_memory_ki
from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS, NodeGroupRecord
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.machines import Machine, reserved_cpu_millis
from slicewright.rehearsal.clouds.core.node_group import (
    DesiredNodes,
    NoCapacity,
    NodeRecord,
    NodeSettings,
)
from slicewright.rehearsal.clouds.core.node_object import NodeDetails, node_object
from slicewright.rehearsal.clouds.core.taints import changed_taints, kubernetes_taints

# Driver of the accelerated AL2023 image, release v20260714 (awslabs/amazon-eks-ami).
DRIVER = "580.159.03"
AL2023 = "Amazon Linux 2023.9.20260714"
RUNTIME = "containerd://2.1.5"
_BOTTLEROCKET_KERNEL = "6.12.46"


def desired_nodes(context: Context, item: NodeGroupRecord) -> DesiredNodes:
    group, region = item["nodegroup"], item["region"]
    present = Counter(node["location"] for node in item["nodes"])
    # Where nodes are, the odd one stays.
    subnets = sorted(group["subnets"], key=lambda subnet: (-present[subnet], subnet))
    size = group["scalingConfig"]["desiredSize"]
    template = data_of(context, item)
    config = _config(group, template)
    return DesiredNodes(
        # An Auto Scaling group spreads its instances evenly over its subnets.
        counts={s: size // len(subnets) + (i < size % len(subnets)) for i, s in enumerate(subnets)},
        generation=item["generation"],
        settings=node_settings(group),
        new_name=lambda subnet, used_names: _new_name(context, region, subnet, used_names),
        manifest=lambda record: _node(context, item, template, config, record),
        check_room=Chooser(context, item, types_of(group, template)).machine_of,
        surge=(group.get("updateConfig") or {}).get("updateStrategy") != "MINIMAL",
    )


def sample_node(context: Context, item: NodeGroupRecord) -> JsonObject:
    """A node as the group would get it in its first subnet, without GPU resources."""
    record = NodeRecord(
        name="sample",
        location=min(item["nodegroup"]["subnets"]),
        generation=item["generation"],
        index=-1,
    )
    template = data_of(context, item)
    config = _config(item["nodegroup"], template)
    return _node(context, item, template, config, record)


def _config(group: JsonObject, template: JsonObject) -> NodeConfig:
    """What nodeadm takes of the user data; Bottlerocket has no nodeadm."""
    return NodeConfig() if is_bottlerocket(group["amiType"]) else node_config(template)


def node_settings(group: JsonObject) -> NodeSettings:
    """group: in the API's form."""
    return {
        "labels": group.get("labels", {}),
        "taints": kubernetes_taints(group.get("taints", [])),
    }


def _domain(region: str) -> str:
    return "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"


def _new_name(context: Context, region: str, identity: str, ours: Collection[str]) -> str:
    """Named after a free address of the subnet; AWS reserves the first four and the last."""
    subnet = find_subnet(context, region, identity)
    if subnet is None:
        raise NoCapacity("Ec2SubnetNotFound", f"the subnet ID '{identity}' does not exist")
    block = ipaddress.IPv4Network(subnet["CidrBlock"])
    used_names = {n["name"] for g in context.store.values(NODE_GROUPS) for n in g["nodes"]} | set(
        ours
    )
    for offset in range(10, block.num_addresses - 1):
        name = f"ip-{str(block[offset]).replace('.', '-')}.{_domain(region)}"
        if name not in used_names:
            return name
    raise NoCapacity(
        "InsufficientFreeAddresses", f"subnet {identity} ({block}) has no free address"
    )


def _node(
    context: Context,
    item: NodeGroupRecord,
    template: JsonObject,
    config: NodeConfig,
    record: NodeRecord,
) -> JsonObject:
    group, region, name = item["nodegroup"], item["region"], record["name"]
    instance_type = record.get("machine") or types_of(group, template)[0]
    machine = machines()[instance_type]
    subnet = find_subnet(context, region, record["location"]) or {
        "AvailabilityZone": f"{region}a",
        "AvailabilityZoneId": "az1",
    }
    pods = config.max_pods or machine.pods or 110
    # EKS passes the API's taints as a kubelet flag; when user data sets the flag too, the kubelet
    # uses the later one, which is the user's.
    taints = kubernetes_taints(group.get("taints", []))
    if config.taints is not None:
        template_taints = [{"key": k, "value": v, "effect": e} for k, v, e in config.taints]
        taints = changed_taints(taints, add=template_taints, remove=())
    labels = common_labels(item["cluster"], region, subnet, machine, name) | {
        "eks.amazonaws.com/capacityType": group["capacityType"],
        "eks.amazonaws.com/nodegroup": group["nodegroupName"],
        "eks.amazonaws.com/nodegroup-image": _image(group),
    }
    if group.get("launchTemplate"):
        labels["eks.amazonaws.com/sourceLaunchTemplateId"] = group["launchTemplate"]["id"]
        labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = group["launchTemplate"]["version"]
    return node_object(
        NodeDetails(
            name=name,
            labels=labels | dict(config.labels) | dict(group.get("labels", {})),
            taints=taints,
            provider_id=f"aws:///{subnet['AvailabilityZone']}/{instance_id(item, name)}",
            vcpu=machine.vcpu,
            reserved_cpu_millis=reserved_cpu_millis(machine.vcpu),
            memory_ki=machine.memory_ki,
            reserved_memory_ki=reserved_memory_ki(pods),
            disk_gb=int(group.get("diskSize") or _template_disk(template) or 20),
            pods=pods,
            kubelet_version=f"v{item['kubelet_version']}",
            os_image=_os_image(group["amiType"]),
            kernel=_BOTTLEROCKET_KERNEL
            if is_bottlerocket(group["amiType"])
            else al2023_kernel(group["version"]),
            runtime=RUNTIME,
            architecture=machine.architecture,
            machine=_machine(context, group, template, machine, record["index"]),
            boots=bool(_scripts(group, template)),
            shared_address=nat_gateway_of(context, region, record["location"]),
        )
    )


def _template_disk(template: JsonObject) -> int | None:
    """GB."""
    mappings = template.get("BlockDeviceMappings") or []
    sizes = (m.get("Ebs", {}).get("VolumeSize") for m in mappings)
    return next((int(size) for size in sizes if size), None)


def _image(group: JsonObject) -> str:
    return (
        "ami-0"
        + hashlib.sha256(f"{group['amiType']}/{group['releaseVersion']}".encode()).hexdigest()[:16]
    )


def _os_image(ami_type: str) -> str:
    if is_bottlerocket(ami_type):
        return "Bottlerocket OS 1.50.0 (aws-k8s-nvidia)"
    return AL2023 if ami_type != "CUSTOM" else "Ubuntu 24.04.3 LTS"


def al2023_kernel(version: str) -> str:
    """version: of Kubernetes."""
    older = "6.12.46-66.121.amzn2023.x86_64"
    return older if version != "1.36" else "6.18.5-12.amzn2023.x86_64"


def common_labels(
    cluster: str, region: str, subnet: JsonObject, machine: Machine, name: str
) -> dict[str, str]:
    """That kubelet and cloud provider give every node."""
    zone = subnet["AvailabilityZone"]
    return {
        "beta.kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/instance-type": machine.name,
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": region,
        "failure-domain.beta.kubernetes.io/zone": zone,
        "k8s.io/cloud-provider-aws": hashlib.md5(
            cluster.encode(), usedforsecurity=False
        ).hexdigest(),
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.name,
        "topology.k8s.aws/zone-id": subnet["AvailabilityZoneId"],
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
    }


def _scripts(group: JsonObject, template: JsonObject) -> list[str]:
    """Those of nodes with GPUs: nobody else's are run here."""
    accelerated = "NVIDIA" in group["amiType"] and not is_bottlerocket(group["amiType"])
    return shell_scripts(template) if accelerated else []


def _machine(
    context: Context, group: JsonObject, template: JsonObject, machine: Machine, index: int
) -> JsonObject | None:
    """What the machine annotation says of the node's GPUs."""
    if not machine.gpu:
        return None
    shape: JsonObject = {
        "cloud": "eks",
        "gpu_model": machine.gpu,
        "gpu_count": machine.gpu_count,
        # Only the accelerated images carry a driver.
        "driver_version": DRIVER if "NVIDIA" in group["amiType"] else None,
    }
    if is_bottlerocket(group["amiType"]):
        shape["bottlerocket"] = bottlerocket_gpus(template)
    if scripts := _scripts(group, template):
        shape["user_data"] = scripts
    fault = context.faults.node_fault(
        pool=group["nodegroupName"], labels=group.get("labels", {}), index=index
    )
    if fault:
        shape["fault"] = fault
    return shape
