"""Notes on a cluster and its pools on EKS, to read before `pulumi up`."""

from __future__ import annotations

import json
from typing import Final

from slicewright.infra import catalog
from slicewright.infra.plan.eks.addons import NODE_MONITORING
from slicewright.infra.plan.eks.identities import AGENT
from slicewright.infra.plan.eks.image_issues import image_issue_notes
from slicewright.infra.plan.eks.partitioner_notes import partitioner_notes
from slicewright.infra.plan.machines.regions import (
    control_plane_zones,
    offered_zones,
    without_control_planes,
)
from slicewright.infra.plan.model.clusters import EksClusterPlan
from slicewright.infra.plan.model.fleets import EksFleetPlan
from slicewright.infra.plan.model.pools import EksPoolPlan

_GROUPS_OF_A_CLUSTER: Final = 30
_NODES_OF_A_GROUP: Final = 450
"""The default quota. Source: EKS user guide, "Amazon EKS service quotas"."""


def cluster_notes(cluster: EksClusterPlan) -> list[str]:
    return [
        *_control_plane_by_letter(cluster),
        *_nat_gateways(cluster),
        *_private_endpoint(cluster),
        *_secrets_key(cluster),
        *_logs(cluster),
        *_access(cluster),
        *_addon_roles(cluster),
        *_pod_roles(cluster),
    ]


def pool_notes(pool: EksPoolPlan, cluster: EksClusterPlan) -> list[str]:
    if pool.settings.karpenter is not None:
        return [
            *_by_letter(pool, cluster.region),
            *_release_version(pool, cluster),
            *image_issue_notes(pool),
            *partitioner_notes(pool),
            *_other_machines(pool),
        ]
    return [
        *_by_letter(pool, cluster.region),
        *_volume_key(pool),
        *_reserved(pool),
        *_release_version(pool, cluster),
        *image_issue_notes(pool),
        *partitioner_notes(pool),
        *_interfaces(pool),
        *_placement(pool),
        *_other_machines(pool),
        *_updates(pool),
        *_repair(pool, cluster),
    ]


def quota_notes(fleet: EksFleetPlan) -> list[str]:
    """Notes on numbers above EKS's default quotas."""
    sizes = {fleet.system.name: fleet.system.nodes.max}
    sizes |= {pool.name: pool.nodes.max for pool in fleet.node_groups}
    notes = [
        f"pool {name}: EKS gives a node group {_NODES_OF_A_GROUP} nodes at most, and not {most}, "
        "until the account's quota L-BD136A63 is raised; `slicewright doctor` asks for it"
        for name, most in sizes.items()
        if most > _NODES_OF_A_GROUP
    ]
    if len(sizes) > _GROUPS_OF_A_CLUSTER:
        notes.append(
            f"cluster {fleet.cluster.name}: {len(sizes)} node groups, with the system pool's: EKS "
            f"allows {_GROUPS_OF_A_CLUSTER} in a cluster until the account's quota L-6D54EA21 is "
            "raised; `slicewright doctor` asks for it"
        )
    return notes


def _control_plane_by_letter(cluster: EksClusterPlan) -> list[str]:
    region = catalog.aws_region(cluster.region)
    unable = without_control_planes(region)
    if not unable or cluster.existing or any(map(catalog.is_zone_id, cluster.zones)):
        return []
    able = control_plane_zones(region)
    return [
        f"cluster {cluster.name}: EKS makes no control plane in {', '.join(unable)}, and which "
        f"zone {' or '.join(cluster.zones)} is differs from account to account: for a new cluster "
        f"give zones by id, for example [{', '.join(able[:2])}]"
    ]


def _nat_gateways(cluster: EksClusterPlan) -> list[str]:
    """A note on NAT gateways, which cost money too. Source: Amazon VPC pricing."""
    zones = cluster.nat_zones
    if not zones:
        return []
    count = f"{len(zones)} NAT gateways" if len(zones) > 1 else "a NAT gateway"
    return [
        f"cluster {cluster.name}: {count} in {', '.join(zones)}: AWS bills each by the hour and by "
        "the gigabyte that goes through it, images and data sets too, and its public address by "
        "the hour"
    ]


def _private_endpoint(cluster: EksClusterPlan) -> list[str]:
    if cluster.endpoint.public:
        return []
    return [
        f"cluster {cluster.name}: its endpoint is private: `pulumi up` and kubectl must run "
        "where the VPC is reached"
        + (", and nothing outside reaches the new one by itself" if cluster.own_vpc else "")
    ]


def _secrets_key(cluster: EksClusterPlan) -> list[str]:
    """Source: EKS user guide, encrypt Kubernetes secrets with KMS on existing clusters."""
    if cluster.secrets_key is None:
        return []
    return [
        f"cluster {cluster.name}: if its secrets_key is deleted, the cluster cannot be "
        "recovered; changing or removing the key replaces the cluster"
    ]


def _logs(cluster: EksClusterPlan) -> list[str]:
    if not cluster.logs:
        return []
    return [
        f"cluster {cluster.name}: CloudWatch bills for the logs; their group, /aws/eks/"
        f"{cluster.name}/cluster, stays when the cluster is deleted"
    ]


def _placement(pool: EksPoolPlan) -> list[str]:
    """Sources: EC2 user guide, placement strategies; eksctl-io/eksctl #7949."""
    if pool.settings.template is None or pool.settings.template.placement is None:
        return []
    notes = [
        f"pool {pool.name}: EC2 places nodes close together most easily if they start at once "
        "and have one type; later nodes may fail with InsufficientInstanceCapacity"
    ]
    if pool.settings.template.reserved is not None:
        notes.append(
            f"pool {pool.name}: a reservation that was made in a placement group serves no other "
            "group, and of any other only those machines serve that are close to each other: leave "
            "placement out where the reservation is placed already"
        )
    return notes


def _access(cluster: EksClusterPlan) -> list[str]:
    """Source: terraform-aws-modules/terraform-aws-eks #2968."""
    if cluster.existing:
        return []
    able = [entry.principal for entry in cluster.access if entry.administers]
    if not cluster.creator_admin:
        return [
            f"cluster {cluster.name}: only {' and '.join(able)} will administer a new cluster; who "
            "runs `pulumi up` is not known here, and must be among them"
        ]
    if not able:
        return []
    return [
        f"cluster {cluster.name}: whoever creates it gets an access entry from EKS, which refuses "
        f"a second one: where that is {' or '.join(able)}, write creator_admin: false"
    ]


def _pod_roles(cluster: EksClusterPlan) -> list[str]:
    if not cluster.pod_identities:
        return []
    if cluster.existing:
        return [
            f"cluster {cluster.name}: pods get the roles of pod_identities from the add-on "
            f"{AGENT}, which the cluster must have"
        ]
    return [
        f"cluster {cluster.name}: add-on {AGENT} is installed: pods get the roles of "
        "pod_identities from it"
    ]


def _addon_roles(cluster: EksClusterPlan) -> list[str]:
    return [
        f"cluster {cluster.name}: {addon.name} gets an IAM role with AWS's policy "
        f"{addon.identity.policy}, and {AGENT} beside it, from which its pods get the role"
        for addon in cluster.addons
        if addon.identity is not None
    ]


def _by_letter(pool: EksPoolPlan, region: str) -> list[str]:
    """A zone's name does not tell its machine types: the letters differ between accounts."""
    catalog_region = catalog.aws_region(region)
    offering_zones = offered_zones(pool.settings.machine, catalog_region)
    if (
        offering_zones is None
        or set(offering_zones) >= set(catalog_region.zones)
        or any(map(catalog.is_zone_id, pool.settings.zones))
    ):
        return []
    by_letter = " and ".join(pool.settings.zones)
    return [
        f"pool {pool.name}: {pool.settings.machine.name} is offered in zones "
        f"{', '.join(offering_zones)} only, and each account maps {by_letter} to other zone ids: "
        "write zones by id"
    ]


def _volume_key(pool: EksPoolPlan) -> list[str]:
    """Source: EC2 Auto Scaling user guide, required AWS KMS key policy for encrypted volumes."""
    if pool.settings.template is None or not pool.settings.template.kms_key:
        return []
    return [
        f"pool {pool.name}: the policy of its KMS key must let AWSServiceRoleForAutoScaling use it "
        "and create grants; without that, instances end as they start"
    ]


def _reserved(pool: EksPoolPlan) -> list[str]:
    """Sources: EKS user guide, managed node groups with capacity blocks; EC2 user guide, On-Demand
    Capacity Reservations.
    """
    if pool.settings.template is None or pool.settings.template.reserved is None:
        return []
    if pool.settings.template.block:
        at_first = (
            f"nodes {{min: 0, max: {pool.nodes.max}}}" if pool.nodes.min else "no node wanted"
        )
        return [
            f"pool {pool.name}: a capacity block has machines from its start to 30 minutes before "
            f"its end; outside of that `pulumi up` needs {at_first}, and EKS updates the pool only "
            "while it has no node"
        ]
    if (
        pool.settings.template.reserved.reservation is None
        and pool.settings.template.reserved.group is None
    ):
        return [
            f"pool {pool.name}: if no open reservation matches, its nodes are ordinary on-demand "
            "instances; write the reservation to prevent that"
        ]
    return []


def _release_version(pool: EksPoolPlan, cluster: EksClusterPlan) -> list[str]:
    if pool.settings.release_version is None or cluster.version is not None or cluster.existing:
        return []
    if pool.settings.bottlerocket:
        return []  # its versions do not name the Kubernetes version
    version = ".".join(pool.settings.release_version.split(".")[:2])
    return [
        f"pool {pool.name}: EKS takes release {pool.settings.release_version} in clusters of "
        f"Kubernetes {version} only, and gives a new cluster without a version its default: write "
        f'cluster.version: "{version}"'
    ]


def _interfaces(pool: EksPoolPlan) -> list[str]:
    """Source: EKS user guide, manage EFA devices."""
    if pool.settings.template is None or not pool.settings.template.interfaces:
        return []
    return [
        f"pool {pool.name}: pods get its EFAs from AWS's device plugin or DRA driver for EFA, "
        "and slicewright installs neither"
    ]


def _other_machines(pool: EksPoolPlan) -> list[str]:
    if not pool.settings.other_machines:
        return []
    return [
        f"pool {pool.name}: EC2 chooses each node's machine type; prices are given for "
        f"{pool.settings.machine.name}"
    ]


def _updates(pool: EksPoolPlan) -> list[str]:
    """Source: EKS user guide, managed node update phases."""
    if pool.settings.update.strategy != "default":
        return []
    return [
        f"pool {pool.name}: for an update EKS starts new nodes before old ones end, up to "
        f"{2 * len(pool.settings.zones)} or the nodes at a time, whichever is more: quota and "
        "capacity must have them"
    ]


_MONITORING_SETTINGS: Final = "{dcgmAgent: {tolerations: [{operator: Exists}]}}"
"""Source: aws/eks-node-monitoring-agent, the chart's values, and #241."""


def _tolerates_taints(cluster: EksClusterPlan) -> bool:
    """True if the stack file gives the add-on's DCGM tolerations. Their extent is its matter."""
    settings = next(addon.settings for addon in cluster.addons if addon.name == NODE_MONITORING)
    agent = json.loads(settings or "{}").get("dcgmAgent")
    return isinstance(agent, dict) and bool(agent.get("tolerations"))


def _repair(pool: EksPoolPlan, cluster: EksClusterPlan) -> list[str]:
    """Source: EKS user guide, enable node auto repair."""
    if pool.settings.repair is None or not pool.settings.repair.enabled:
        return []
    notes = []
    if not any(addon.name == NODE_MONITORING for addon in cluster.addons):
        instead = (
            f"the cluster must have the add-on {NODE_MONITORING}, with {_MONITORING_SETTINGS}"
            if cluster.existing
            else f"write cluster.addons: {{{NODE_MONITORING}: {{settings: "
            f"{_MONITORING_SETTINGS}}}}}"
        )
        notes.append(
            f"pool {pool.name}: by itself EKS repairs only nodes that are not Ready or that EC2 "
            f"says are broken; for faults of GPUs, and for rules, {instead}: the agent's DCGM must "
            "tolerate the pools' taints, or EKS would replace every GPU node again and again"
        )
    elif not _tolerates_taints(cluster):
        notes.append(
            f"pool {pool.name}: the DCGM of {NODE_MONITORING} must tolerate the pools' taints: "
            "without that it says that the GPUs are not ready, and EKS replaces the nodes again "
            f"and again; write settings: {_MONITORING_SETTINGS} for the add-on"
        )
    if pool.offer.mig_config is not None:
        notes.append(
            f"pool {pool.name}: the DCGM of {NODE_MONITORING} holds the GPUs, and mig-manager "
            "stops only the operator's own: a change of the MIG mode may fail; prefer a pool "
            "without repair, or GPUs that are partitioned when they boot"
        )
    if pool.offer.partitioned:
        notes.append(
            f"pool {pool.name}: a node that EKS reboots or replaces loses its partitions; it is "
            "held until it is partitioned and verified again"
        )
    return notes
