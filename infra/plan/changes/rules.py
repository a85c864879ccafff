"""The effect of each field's change on a pool's nodes, as data with the source of each row.

Abbreviated sources: "google-beta" = hashicorp/terraform-provider-google-beta
services/container/node_config.go and resource_container_node_pool.go (2026-08-21), the base of
pulumi-gcp. "aws" = hashicorp/terraform-provider-aws internal/service/eks/node_group.go and
cluster.go, the base of pulumi-aws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ChangeEffect(IntEnum):
    """The effect of a change on nodes, from best to worst. A pool has the worst of its changes."""

    NONE = 0
    IN_PLACE = 1
    ROLL = 2
    REPLACE = 3

    @property
    def text(self) -> str:
        return {0: "unchanged", 1: "in place", 2: "roll", 3: "replace"}[self.value]


@dataclass(frozen=True, kw_only=True)
class Rule:
    field: str
    """Path in the plan, dotted."""
    cloud_field: str
    """The field of the cloud's resource, or the object in the cluster."""
    effect: ChangeEffect
    why: str
    source: str
    nothing_stays: ChangeEffect | None = None
    """The effect if an old and a new list have nothing in common. None: the same."""
    some_end: ChangeEffect | None = None
    """The effect if a change of zones ends nodes that neither count nor limits take away. None: the
    same.
    """
    why_nothing_stays: str | None = None
    at_first: ChangeEffect | None = None
    """The effect if the field was empty before. None: the same."""
    why_at_first: str | None = None


def _rules(
    effect: ChangeEffect,
    why: str,
    source: str,
    fields: Mapping[str, str],
    nothing_stays: ChangeEffect | None = None,
    why_nothing_stays: str | None = None,
    some_end: ChangeEffect | None = None,
    at_first: ChangeEffect | None = None,
    why_at_first: str | None = None,
) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            field=f,
            cloud_field=c,
            effect=effect,
            why=why,
            source=source,
            nothing_stays=nothing_stays,
            why_nothing_stays=why_nothing_stays,
            some_end=some_end,
            at_first=at_first,
            why_at_first=why_at_first,
        )
        for f, c in fields.items()
    )


_ALL_GO = (
    "all nodes of the pool are deleted, then new ones are created; their pods end without regard "
    "to disruption budgets"
)
_MOVED = (
    "each zone first gets the new number of nodes per zone, then zones are added and removed; "
    "nodes beyond that number and in removed zones are deleted, without regard to disruption "
    "budgets"
)
_GPU_SHARING = "node_config.guest_accelerators.gpu_sharing_config"
_ONE_BY_ONE = "the cloud recreates the nodes one by one"
_LIVE = "nodes and pods stay"
COUNTED: Final = "nodes are added or removed"
"""Told with both numbers of nodes (`changes.Change.why`)."""
COUNTED_BY_GKE: Final = "nodes are added, and removed where GKE does not scale the pool"
"""The same. Source: GKE docs, cluster autoscaler, minimum and maximum node pool size."""

IN_CLUSTER: Final[tuple[Rule, ...]] = (
    *_rules(
        ChangeEffect.ROLL,
        "nodes with another driver get this one node by node: the pods that use their GPUs are "
        "evicted first, as `rollout` says",
        "NVIDIA docs, GPU driver upgrades",
        {"driver_version": "GPUPool.spec.driverVersion"},
    ),
    *_rules(
        ChangeEffect.ROLL,
        "mig-manager repartitions the GPUs node by node: the pods that use them are evicted "
        "first, as `rollout` says, and an A100 node may reboot",
        "NVIDIA/mig-parted, NVIDIA/gpu-operator docs",
        {"mig_config": "GPUPool.spec.migConfig"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "mig-manager restarts node by node with a config that has these layouts too; nodes and "
        "pods stay",
        "NVIDIA/gpu-operator docs, gpu-operator-mig",
        {"previous": "ConfigMap of mig-manager"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "the device plugin restarts with its new config; running pods keep what they have",
        "NVIDIA/k8s-device-plugin README, gpu-operator docs gpu-sharing",
        {"sharing": "ConfigMap of the device plugin"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "new pods must request what the nodes advertise then; the agents restart and compare "
        "with it",
        "Kubernetes device plugins",
        {"resources": "Node.status.allocatable"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "it applies from the next change of a layout, and at once to nodes that are found wrong",
        "slicewright",
        {"rollout": "rollout policy"},
    ),
)
GKE: Final[tuple[Rule, ...]] = (
    *_rules(
        ChangeEffect.REPLACE,
        _ALL_GO,
        "google-beta: ForceNew",
        {
            "accelerator": "node_config.guest_accelerators.type",
            "gpu_count": "node_config.guest_accelerators.count",
            "partition_size": "node_config.guest_accelerators.gpu_partition_size",
            "sharing_strategy": f"{_GPU_SHARING}.gpu_sharing_strategy",
            "shared_clients": f"{_GPU_SHARING}.max_shared_clients_per_gpu",
            "driver": "node_config.guest_accelerators.gpu_driver_installation_config",
            "capacity": "node_config.spot, flex_start, max_run_duration, reservation_affinity; "
            "queued_provisioning",
            "local_ssd": "node_config.ephemeral_storage_local_ssd_config, "
            "local_nvme_ssd_block_config",
            "max_pods_per_node": "max_pods_per_node",
            "placement_policy": "placement_policy.policy_name",
            "gpu_network": "network_config.accelerator_network_profile, "
            "additional_node_network_configs",
            "gpu_networks": "network_config.additional_node_network_configs",
        },
    ),
    *_rules(
        ChangeEffect.REPLACE,
        _ALL_GO,
        "google-beta: the type alone is never sent, so the program asks for a replacement",
        {"placement": "placement_policy.type"},
    ),
    *_rules(
        ChangeEffect.ROLL,
        _ONE_BY_ONE,
        "google-beta: updated in place, GKE recreates the nodes",
        {
            "machine.name": "node_config.machine_type",
            "disk": "node_config.disk_type, disk_size_gb",
            "image_type": "node_config.image_type",
            "features": "node_config.gvnic, gcfs_config, fast_socket, logging_variant",
        },
    ),
    *_rules(
        ChangeEffect.ROLL,
        _ONE_BY_ONE,
        "gcloud container node-pools update, --resource-labels",
        {"resource_labels": "node_config.resource_labels"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        _LIVE,
        "google-beta: updated in place",
        {
            "labels": "node_config.labels",
            "taints": "node_config.taints",
            "management": "management",
            "location_policy": "autoscaling.location_policy",
        },
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "it applies from the next upgrade, or the next change that needs new nodes",
        "google-beta: updated in place",
        {"upgrade": "upgrade_settings"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        COUNTED_BY_GKE,
        "google-beta: updated in place",
        {"nodes": "node_count, autoscaling"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        _MOVED,
        "google-beta: updated in place, first the number of nodes in each zone",
        {"zones": "node_locations"},
        some_end=ChangeEffect.ROLL,
        nothing_stays=ChangeEffect.REPLACE,
        why_nothing_stays=f"no zone stays: {_ALL_GO}",
    ),
)
EKS: Final[tuple[Rule, ...]] = (
    *_rules(
        ChangeEffect.REPLACE,
        "all nodes of the pool end, and new ones are made in the other way; pods on a node group "
        "end without regard to disruption budgets",
        "aws_eks_node_group; kubernetes-sigs/karpenter, NodePool",
        {"karpenter": "node group or NodePool"},
    ),
    *_rules(
        ChangeEffect.REPLACE,
        _ALL_GO,
        "aws: ForceNew",
        {
            "machine.name": "instance_types",
            "other_machines": "instance_types",
            "capacity_type": "capacity_type",
            "ami_type": "ami_type",
            "disk_size_gb": "disk_size",
            "zones": "subnet_ids",
            "templated": "launch_template.id",
        },
    ),
    *_rules(
        ChangeEffect.ROLL,
        _ONE_BY_ONE,
        "aws: a new version of the launch template, UpdateNodegroupVersion",
        {
            "template.disk_gb": "block_device_mappings",
            "template.encrypted": "block_device_mappings",
            "template.kms_key": "block_device_mappings",
            "template.hop_limit": "metadata_options",
            "template.instance_store": "user_data",
            "template.bottlerocket": "user_data",
            "template.tags": "tag_specifications",
            "template.reserved": "capacity_reservation_specification",
            "template.interfaces": "network_interfaces",
            "template.placement": "placement",
        },
    ),
    *_rules(
        ChangeEffect.ROLL,
        _ONE_BY_ONE,
        "aws: UpdateNodegroupVersion",
        {"version": "version", "release_version": "release_version"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        _LIVE,
        "aws: UpdateNodegroupConfig, TagResource",
        {"labels": "labels", "taints": "taints", "tags": "tags", "update": "update_config"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        f"{_LIVE}; to leave the key out changes nothing, only enabled: false turns repair off",
        "aws: UpdateNodegroupConfig",
        {"repair": "node_repair_config"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        COUNTED,
        "aws: UpdateNodegroupConfig",
        {"nodes": "scaling_config"},
    ),
)
_DRIFTS = (
    "Karpenter replaces the nodes in the background, after `up`, as many at a time as `update` "
    "says: pods are evicted, and those with karpenter.sh/do-not-disrupt keep their node"
)
_DRIFT = "karpenter.sh docs, disruption, drift"
KARPENTER: Final[tuple[Rule, ...]] = (
    *_rules(
        ChangeEffect.ROLL,
        _DRIFTS,
        _DRIFT,
        {
            "machine.name": "NodePool requirements",
            "other_machines": "NodePool requirements",
            "capacity_type": "NodePool requirements",
            "labels": "NodePool template",
            "taints": "NodePool template",
            "zones": "EC2NodeClass.spec.subnetSelectorTerms",
            "karpenter.drain_minutes": "NodePool template",
            "karpenter.image": "EC2NodeClass.spec.amiSelectorTerms",
            "version": "EC2NodeClass.status.amis",
            **{
                f"template.{field}": f"EC2NodeClass.spec.{there}"
                for field, there in {
                    "disk_gb": "blockDeviceMappings",
                    "encrypted": "blockDeviceMappings",
                    "kms_key": "blockDeviceMappings",
                    "hop_limit": "metadataOptions",
                    "instance_store": "instanceStorePolicy",
                    "tags": "tags",
                    "reserved": "capacityReservationSelectorTerms",
                }.items()
            },
        },
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        _LIVE,
        "kubernetes-sigs/karpenter, pkg/apis/v1/nodepool.go: budgets are no part of its hash",
        {"karpenter.replaced_together": "NodePool.spec.disruption.budgets"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "new nodes are made from then on for pods that ask for it",
        "kubernetes-sigs/karpenter, pkg/controllers/nodeoverlay",
        {"karpenter.overlay": "NodeOverlay.spec.capacity"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "it limits the nodes that are made; those that are there stay",
        "kubernetes-sigs/karpenter, pkg/apis/v1/nodepool.go",
        {"nodes": "NodePool.spec.limits"},
    ),
)
BYO: Final[tuple[Rule, ...]] = (
    *_rules(
        ChangeEffect.IN_PLACE,
        "the nodes exist already; only what is expected of them changes",
        "slicewright",
        {
            "gpu.name": "expected GPU",
            "gpu_count": "expected GPUs",
            "nodes": "expected nodes",
            "taints": "tolerations",
        },
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "nodes join and leave the pool; those that leave get back what they had before",
        "slicewright",
        {"select": "GPUPool.spec.selector"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        _LIVE,
        "slicewright",
        {
            "labels": "GPUPool.spec.existingNodes.labels",
            "on_destroy": "GPUPool.spec.existingNodes.migLayoutOnRelease",
        },
    ),
)
HOST: Final[tuple[Rule, ...]] = (
    *_rules(
        ChangeEffect.IN_PLACE,
        "only what is expected of the host changes, and what is done about a GPU in use",
        "slicewright",
        {"gpu.name": "expected GPU", "gpu_count": "expected GPUs", "wait_minutes": "a GPU in use"},
    ),
    *_rules(
        ChangeEffect.ROLL,
        "the GPUs that differ are repartitioned, each only when it is not in use; the others "
        "are not touched",
        "NVIDIA MIG user guide",
        {"gpus": "GPU instances"},
    ),
)
_CLUSTER_GOES = "the cluster is deleted with everything in it, then a new one is created"
_CONTROL_PLANE = (
    "the control plane is upgraded; nodes stay on their version until their own upgrade"
)
_SYSTEM = "system pool"
(_EXISTING,) = _rules(
    ChangeEffect.IN_PLACE,
    "the cluster stays, and `up` fails: with true, Pulumi only reads it, and deletes the network "
    "that the stack made, which the cluster still uses; with false, it creates a second cluster, "
    "whose name is taken. A stack in a cluster that exists is another stack",
    "pulumi/pulumi, pkg/resource/deploy/step_generator.go: a resource that is read under the ID "
    "that it had is not deleted",
    {"cluster.existing": "existing or created"},
)
GKE_FLEET: Final[tuple[Rule, ...]] = (
    *_rules(
        ChangeEffect.REPLACE,
        _CLUSTER_GOES,
        "google-beta resource_container_cluster.go: ForceNew",
        {
            "cluster.name": "name",
            "cluster.location": "location",
            "cluster.network": "network, subnetwork, ip_allocation_policy",
        },
    ),
    _EXISTING,
    *_rules(
        ChangeEffect.IN_PLACE,
        _CONTROL_PLANE,
        "google-beta: updated in place",
        {"cluster.version": "min_master_version", "cluster.release_channel": "release_channel"},
    ),
    *_rules(
        ChangeEffect.ROLL,
        "the cloud recreates the nodes of every pool one by one; taking the key away changes "
        "nothing",
        "google-beta: updated in place, network_config.enable_private_nodes",
        {"cluster.private_nodes": "private_cluster_config, network_config of every pool"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "nodes and pods stay; what the key no longer states keeps its value",
        "google-beta: updated in place",
        {
            "cluster.control_plane": "control_plane_endpoints_config, "
            "master_authorized_networks_config, private_cluster_config.enable_private_endpoint",
        },
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "VPCs are made or removed, multi-networking stays once it is on; each pool that has the "
        "networks says what becomes of its nodes",
        "google-beta: updated in place",
        {"cluster.gpu_networks": "enable_multi_networking; Network, GKENetworkParamSet"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "it says when upgrades come, nothing more; to take the key away ends the window, and "
        "exclusions stay in force",
        "google-beta: SetMaintenancePolicy",
        {"cluster.maintenance": "maintenance_policy"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "GKE installs or removes its collectors; nodes and pods stay; to take the key away changes "
        "nothing",
        "google-beta: updated in place",
        {"cluster.monitoring": "monitoring_config", "cluster.logging": "logging_config"},
    ),
    *_rules(
        ChangeEffect.REPLACE,
        "the nodes of the system pool and of every GPU pool are deleted, then created with disks "
        "of the other key",
        "google-beta: ForceNew",
        {"cluster.kms_key": "node_config.boot_disk_kms_key of every pool"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "GKE re-encrypts every Secret; nodes and pods stay; to take the key away changes nothing",
        "google-beta: updated in place",
        {"cluster.secrets_key": "database_encryption"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "nodes and pods stay; GKE gives the labels to nodes and disks that are there within an "
        "hour",
        "google-beta: SetLabels; hashicorp/terraform-provider-google #1758",
        {"cluster.resource_labels": "resource_labels"},
    ),
    *_rules(
        ChangeEffect.ROLL,
        _ONE_BY_ONE,
        "google-beta: updated in place, GKE recreates the nodes",
        {"system.machine.name": _SYSTEM},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        COUNTED_BY_GKE,
        "google-beta: updated in place",
        {"system.nodes": _SYSTEM},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        _MOVED,
        "google-beta: updated in place, first the number of nodes in each zone",
        {"system.zones": _SYSTEM},
        some_end=ChangeEffect.ROLL,
        nothing_stays=ChangeEffect.REPLACE,
        why_nothing_stays="no zone stays: its nodes are deleted, then new ones are created; "
        "controller and add-ons wait for them",
    ),
)
EKS_FLEET: Final[tuple[Rule, ...]] = (
    *_rules(
        ChangeEffect.REPLACE,
        _CLUSTER_GOES,
        "aws cluster.go: ForceNew; region: of the provider",
        {
            "cluster.name": "name",
            "cluster.region": "region",
        },
    ),
    *_rules(
        ChangeEffect.ROLL,
        "the control plane is upgraded, by one minor version at a time; then the cloud recreates "
        "the nodes of the system pool and of every GPU pool one by one",
        "aws: UpdateClusterVersion, UpdateNodegroupVersion; EKS docs, update an existing cluster",
        {"cluster.version": "version"},
    ),
    *_rules(
        ChangeEffect.REPLACE,
        f"EKS accepts subnets of the zones of the cluster's creation only: {_CLUSTER_GOES}",
        "aws/containers-roadmap #2258",
        {"cluster.zones": "vpc_config.subnet_ids"},
    ),
    _EXISTING,
    *_rules(
        ChangeEffect.REPLACE,
        f"a cluster stays in its VPC: {_CLUSTER_GOES}",
        "EKS API, UpdateClusterConfig",
        {"cluster.own_vpc": "vpc_config.subnet_ids"},
    ),
    *_rules(
        ChangeEffect.REPLACE,
        "the nodes of the system pool and of every GPU pool are deleted, then created in the other "
        "subnets",
        "aws: ForceNew",
        {"node_subnets": "subnet_ids"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        _LIVE,
        "aws: UpdateClusterConfig",
        {
            "cluster.endpoint": "vpc_config.endpoint_*_access, public_access_cidrs",
            "cluster.logs": "enabled_cluster_log_types",
        },
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "the add-on's own pods are replaced one by one, other pods and nodes stay; an add-on that "
        "is taken away is uninstalled; a version, or settings, that the file no longer states stay "
        "as they are",
        "aws: UpdateAddon, DeleteAddon; addon.go: Optional and Computed",
        {"cluster.addons": "aws_eks_addon"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "the autoscaler's own pods are replaced, nodes and other pods stay; without one, every "
        "node group keeps the nodes that it has",
        "pulumi-kubernetes: Helm upgrade",
        {"cluster.autoscaler": "helm.v3.Release"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        f"{_LIVE}; who gets an entry, or loses it, does so within seconds; a policy with other "
        "namespaces is taken away and given again",
        "aws: access_entry.go, access_policy_association.go: access_scope ForceNew",
        {"cluster.access": "aws_eks_access_entry, aws_eks_access_policy_association"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        f"{_LIVE}; pods that start from then on have the role, those that run must be started "
        "again to get their first",
        "EKS user guide, EKS Pod Identity; pod_identity_association.go",
        {"cluster.pod_identities": "aws_eks_pod_identity_association"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        f"{_LIVE}; instances and disks have those of `instance_tags`",
        "aws: TagResource, CreateTags, TagRole",
        {"cluster.tags": "tags of every resource"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        f"{_LIVE}; it limits what the roles of cluster, nodes, autoscaler and add-ons may do from "
        "then on",
        "aws: PutRolePermissionsBoundary, DeleteRolePermissionsBoundary",
        {"cluster.permissions_boundary": "permissions_boundary of every aws_iam_role"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "it says what a new cluster gets, and this one stays as it is: `aws eks "
        "create-access-entry` and `delete-access-entry` change its creator's entry",
        "EKS API, CreateAccessConfigRequest; the provider would replace the cluster, so the "
        "program does not tell it",
        {"cluster.creator_admin": "access_config.bootstrap_cluster_creator_admin_permissions"},
    ),
    *_rules(
        ChangeEffect.REPLACE,
        f"EKS neither changes nor removes the key: {_CLUSTER_GOES}",
        "aws cluster.go: ForceNew where it is removed; EKS API, AssociateEncryptionConfig",
        {"cluster.secrets_key": "encryption_config"},
        at_first=ChangeEffect.IN_PLACE,
        why_at_first="nodes and pods stay; secrets that are there are encrypted with the key when "
        "they are written again",
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "NAT gateways are added or removed; connections through those that a zone no longer uses "
        "break",
        "VPC user guide, NAT gateways",
        {"cluster.nat_zones": "NAT gateways"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "subnets are added or removed; a zone keeps its own, and the cluster its zones",
        "EC2 API, CreateSubnet",
        {"cluster.pool_zones": "subnets of the VPC"},
    ),
    *_rules(
        ChangeEffect.REPLACE,
        "its nodes are deleted, then new ones are created; controller and add-ons wait for them",
        "aws: ForceNew",
        {
            "system.machine.name": _SYSTEM,
            "system.zones": _SYSTEM,
            "system.templated": "launch_template.id of the system pool",
        },
    ),
    *_rules(
        ChangeEffect.ROLL,
        _ONE_BY_ONE,
        "aws: a new version of the launch template, UpdateNodegroupVersion",
        {"system.template.tags": "tag_specifications of the system pool"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        COUNTED,
        "aws: UpdateNodegroupConfig",
        {"system.nodes": _SYSTEM},
    ),
)
BYO_FLEET: Final[tuple[Rule, ...]] = (
    *_rules(
        ChangeEffect.IN_PLACE,
        "it applies to nodes that join from then on",
        "slicewright",
        {"startup_taint": "MutatingAdmissionPolicy"},
    ),
    *_rules(
        ChangeEffect.REPLACE,
        "what slicewright created in the cluster is deleted, then created in the other one; the "
        "nodes of both stay",
        "pulumi-kubernetes: another clusterIdentifier replaces what the provider has",
        {"cluster.context": "clusterIdentifier"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        _LIVE,
        "slicewright",
        {"cluster.name": "what the cluster is called", "cluster.kubeconfig": "how it is reached"},
    ),
)
FLEET: Final[tuple[Rule, ...]] = (
    *_rules(
        ChangeEffect.REPLACE,
        "true: the release is uninstalled, and another operator has to be there before; false: one "
        "is installed",
        "slicewright",
        {"operator.existing": "helm.v3.Release"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "another ClusterPolicy is read",
        "slicewright",
        {"operator.cluster_policy": "ClusterPolicy"},
    ),
    *_rules(
        ChangeEffect.REPLACE,
        "the release is uninstalled, then installed again: no mig-manager and no device "
        "plugin in between, running pods stay",
        "pulumi-kubernetes helm.v3.Release",
        {"operator.namespace": "namespace", "operator.release": "name"},
    ),
    *_rules(
        ChangeEffect.ROLL,
        "the driver changes node by node: as `rollout` of the pools says, where driver.version is "
        "a whole version; else by the operator, which ends the pods that use its GPUs",
        "NVIDIA/gpu-operator chart, driver.upgradePolicy",
        {"operator.driver": "driver"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "Helm upgrade: the components concerned restart; where the operator installs the driver, "
        "a new chart installs a new one",
        "NVIDIA/gpu-operator chart",
        {
            "operator.repository": "repositoryOpts.repo",
            "operator.chart_path": "chart",
            "operator.registry": "repository of each image",
            "operator.image_pull_secrets": "imagePullSecrets",
            "operator.upgrade_crds": "operator.upgradeCRD",
            "operator.nfd": "nfd, node-feature-discovery",
            "operator.cdi": "cdi",
            "operator.validator": "validator",
            "operator.chart_version": "version",
            "operator.mig_strategy": "mig.strategy",
            "operator.toolkit": "toolkit",
            "operator.device_plugin": "devicePlugin",
            "operator.gfd": "gfd",
            "operator.dcgm_exporter": "dcgmExporter",
            "operator.mig_manager": "migManager",
        },
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "the container toolkit, the agents and, without CDI, the device plugin restart; running "
        "containers keep the GPUs that they have, requested or not, and those that start from then "
        "on get theirs in the new way",
        "NVIDIA/nvidia-container-toolkit, cmd/nvidia-ctk-installer",
        {"operator.device_list": "toolkit.env, devicePlugin.env"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "controller and agents restart",
        "slicewright",
        {
            "image": "image of controller and agents",
            "image_pull_secrets": "imagePullSecrets of controller and agents",
        },
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "the agents restart",
        "slicewright",
        {"node_agent": "what the agents report"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "nothing restarts",
        "slicewright",
        {
            "verify_timeout_minutes": "how long `pulumi up` waits",
            "admin_groups": "ValidatingAdmissionPolicy",
            "pod_guard": "ValidatingAdmissionPolicy; pods that run already are not asked",
            "metrics_from": "NetworkPolicy",
        },
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "the scheduler's settings change",
        "Project-HAMi/HAMi docs",
        {"fractional": "fractional scheduler"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "it applies to pods created from then on",
        "slicewright",
        {"workloads": "what pods request"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "nodes stay; pods that change are replaced, as many at a time as max_unavailable says",
        "slicewright",
        {"deployments": "Deployment"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "nodes and the pods on GPUs stay; what a Prometheus of the stack has kept goes where its "
        "namespace or release changes, or nothing stores it",
        "pulumi-kubernetes helm.v3.Release",
        {"monitoring": "helm.v3.Release, PodMonitor, PrometheusRule"},
    ),
    *_rules(
        ChangeEffect.IN_PLACE,
        "nodes and pods stay; while the autoscaler is away or changes, replicas stay as they are",
        "Kubernetes docs, horizontal pod autoscaling",
        {"pod_autoscaling": "KEDA, or prometheus-adapter"},
    ),
)
