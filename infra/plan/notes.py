"""What is worth knowing before `pulumi up`, but no reason to refuse the stack file."""

from __future__ import annotations

from typing import Final

from infra import catalog
from infra.catalog import driver_order
from infra.plan.drivers import driver_of
from infra.plan.eks_addons import NODE_MONITORING
from infra.plan.fleet import (
    ByoFleetPlan,
    CloudPoolPlan,
    EksClusterPlan,
    EksFleetPlan,
    EksPoolPlan,
    FleetPlan,
    GkeFleetPlan,
    GkePoolPlan,
)
from infra.plan.gke_encryption import key_notes
from infra.plan.gke_network import network_notes
from infra.plan.regions import control_plane_zones, offered_zones, without_control_planes
from infra.spec import (
    FLEX_START_HOURS,
    BlueGreen,
    FlexStart,
    GkeOnDemand,
    GkeReservation,
    GkeSpot,
    Queued,
)

NO_STARTUP_TAINT: Final = (
    "startup_taint is none: until a new node is partitioned and verified, pods may come to it, get "
    "a whole GPU in place of a partition, and keep it from being partitioned; write startup_taint: "
    "admission-policy (Kubernetes 1.36 and later) or registered"
)
"""What it costs that nobody taints the new nodes of an existing cluster."""
_REBOOT_MINUTES = 15
"""Of a machine with eight GPUs, until its GPUs are partitioned."""


def _control_plane_by_letter(cluster: EksClusterPlan) -> list[str]:
    known = catalog.aws_region(cluster.region)
    unable = without_control_planes(known)
    if not unable or cluster.existing or any(map(catalog.is_zone_id, cluster.zones)):
        return []
    able = control_plane_zones(known)
    return [
        f"cluster {cluster.name}: EKS makes no control plane in {', '.join(unable)}, and which "
        f"zone {' or '.join(cluster.zones)} is differs from account to account: for a new cluster "
        f"give zones by id, for example [{', '.join(able[:2])}]"
    ]


def _nat_gateways(cluster: EksClusterPlan) -> list[str]:
    """What costs money besides machines and control plane. Source: Amazon VPC pricing."""
    zones = cluster.nat_zones
    if not zones:
        return []
    count = f"{len(zones)} NAT gateways" if len(zones) > 1 else "a NAT gateway"
    return [
        f"cluster {cluster.name}: {count} in {', '.join(zones)}: AWS bills each by the hour and by "
        "the gigabyte that goes through it, images and data sets too, and its public address by "
        "the hour"
    ]


def _endpoint_and_logs(cluster: EksClusterPlan) -> list[str]:
    found = []
    if not cluster.endpoint.public:
        found.append(
            f"cluster {cluster.name}: its endpoint is private: `pulumi up` and kubectl must run "
            "where the VPC is reached"
            + (", and nothing outside reaches the new one by itself" if cluster.own_vpc else "")
        )
    if cluster.secrets_key is not None:
        # EKS user guide, encrypt Kubernetes secrets with KMS on existing clusters.
        found.append(
            f"cluster {cluster.name}: when its secrets_key is deleted, nothing brings the cluster "
            "back; another key, or none, is another cluster"
        )
    if cluster.logs:
        found.append(
            f"cluster {cluster.name}: CloudWatch bills for the logs; their group, /aws/eks/"
            f"{cluster.name}/cluster, stays when the cluster is deleted"
        )
    return found


def _by_letter(pool: CloudPoolPlan, region: str) -> list[str]:
    """A zone's name says nothing of what it has: the letters differ from account to account."""
    known = catalog.aws_region(region)
    there = offered_zones(pool.machine, known)
    if there is None or set(there) >= set(known.zones) or any(map(catalog.is_zone_id, pool.zones)):
        return []
    return [
        f"pool {pool.name}: {pool.machine.name} is offered in {', '.join(there)} only, and which "
        f"of them {' and '.join(pool.zones)} is differs from account to account: give zones by id"
    ]


def _limited(pool: GkePoolPlan) -> list[str]:
    if isinstance(pool.capacity, FlexStart | Queued):
        hours = pool.capacity.max_run_hours or FLEX_START_HOURS
    elif isinstance(pool.capacity, GkeOnDemand | GkeSpot) and pool.capacity.max_run_hours:
        hours = pool.capacity.max_run_hours
    else:
        return []
    return [f"pool {pool.name}: GKE ends each node {hours} hours after its creation"]


def _reserved(pool: GkePoolPlan) -> list[str]:
    if not isinstance(pool.capacity, GkeReservation) or pool.capacity.fallback != "on-demand":
        return []
    return [
        f"pool {pool.name}: where no reservation matches, or all are in use, GKE creates on-demand "
        "machines; to fail instead, write fallback: none, or name the reservation"
    ]


def _of_reserved(pool: EksPoolPlan) -> list[str]:
    """Sources: EKS user guide, managed node groups with capacity blocks; EC2 user guide, On-Demand
    Capacity Reservations.
    """
    if pool.template is None or pool.template.reserved is None:
        return []
    if pool.template.block:
        at_first = (
            f"nodes {{min: 0, max: {pool.nodes.max}}}" if pool.nodes.min else "no node wanted"
        )
        return [
            f"pool {pool.name}: a capacity block has machines from its start to 30 minutes before "
            f"its end; outside of that `pulumi up` needs {at_first}, and EKS updates the pool only "
            "while it has no node"
        ]
    if pool.template.reserved.reservation is None and pool.template.reserved.group is None:
        return [
            f"pool {pool.name}: where no open reservation matches, its nodes are ordinary "
            "on-demand instances; write the reservation to prevent that"
        ]
    return []


def _of_nodes(pool: EksPoolPlan, cluster: EksClusterPlan) -> list[str]:
    """Sources: EKS user guide, EFA devices, managed node update phases and node auto repair."""
    found = []
    if pool.release_version is not None and cluster.version is None and not cluster.existing:
        version = ".".join(pool.release_version.split(".")[:2])
        found.append(
            f"pool {pool.name}: EKS takes release {pool.release_version} in clusters of Kubernetes "
            f"{version} only, and gives a new cluster without a version its default: write "
            f'cluster.version: "{version}"'
        )
    if pool.template is not None and pool.template.interfaces:
        found.append(
            f"pool {pool.name}: pods get its EFAs from AWS's device plugin or DRA driver for EFA, "
            "neither of which slicewright installs"
        )
    if pool.other_machines:
        found.append(
            f"pool {pool.name}: which machine type a node gets is EC2's choice; what is said of "
            f"prices is said of {pool.machine.name}"
        )
    if pool.update.strategy == "default":
        found.append(
            f"pool {pool.name}: for an update EKS starts new nodes before old ones end, up to "
            f"{2 * len(pool.zones)} or the nodes at a time, whichever is more: quota and capacity "
            "must have them"
        )
    if pool.repair is not None and pool.repair.enabled:
        found += _what_repair_sees(pool, cluster)
    if pool.repair is not None and pool.repair.enabled and pool.partitioned:
        found.append(
            f"pool {pool.name}: a node that EKS reboots or replaces loses its partitions; it is "
            "held until it is partitioned and verified again"
        )
    return found


def _what_repair_sees(pool: EksPoolPlan, cluster: EksClusterPlan) -> list[str]:
    """Source: EKS user guide, enable node auto repair."""
    if any(addon.name == NODE_MONITORING for addon in cluster.addons):
        return []
    instead = (
        f"the cluster must have the add-on {NODE_MONITORING}"
        if cluster.existing
        else f"write cluster.addons: {{{NODE_MONITORING}: {{}}}}"
    )
    return [
        f"pool {pool.name}: by itself EKS repairs only nodes that are not Ready or that EC2 says "
        f"are broken; for faults of GPUs, and for rules, {instead}"
    ]


def _extra_nodes(pool: GkePoolPlan) -> list[str]:
    """Source: GKE docs, node upgrades and quota: nodes for an upgrade come from it too."""
    more = isinstance(pool.upgrade, BlueGreen) or pool.upgrade.max_surge > 0
    if not more or not isinstance(pool.capacity, GkeReservation):
        return []
    return [
        f"pool {pool.name}: an upgrade needs more machines than the pool has, reserved ones too"
    ]


def notes(fleet: FleetPlan) -> tuple[str, ...]:
    """One sentence each, starting with the pool's name where it is of one."""
    found = []
    if isinstance(fleet, EksFleetPlan):
        found += _control_plane_by_letter(fleet.cluster)
        found += _nat_gateways(fleet.cluster)
        found += _endpoint_and_logs(fleet.cluster)
    if isinstance(fleet, GkeFleetPlan):
        found += network_notes(fleet.cluster)
        found += key_notes(fleet.cluster)
    if isinstance(fleet, ByoFleetPlan) and fleet.pools and fleet.startup_taint == "none":
        found.append(NO_STARTUP_TAINT)
    if (
        fleet.operator is not None
        and not fleet.operator.existing
        and fleet.operator.chart_path is None
        and fleet.operator.chart_version not in catalog.load().charts
    ):
        found.append(
            f"gpu_operator: the catalog does not know chart {fleet.operator.chart_version}, so "
            "which driver and device plugin it installs is not checked"
        )
    for pool in fleet.pools:
        at = f"pool {pool.name}:"
        if isinstance(pool, CloudPoolPlan):
            machine = pool.machine
            missing = [
                zone
                for zone in pool.zones
                if machine.zones is not None and zone not in machine.zones
            ]
            if missing:
                found.append(
                    f"{at} the catalog does not list {machine.name} in "
                    f"{', '.join(missing)}; the list may be out of date"
                )
            if isinstance(fleet, EksFleetPlan):
                found += _by_letter(pool, fleet.cluster.region)
            if isinstance(pool, EksPoolPlan) and pool.template and pool.template.kms_key:
                # EC2 Auto Scaling user guide, required AWS KMS key policy for encrypted volumes.
                found.append(
                    f"{at} the policy of its KMS key must let AWSServiceRoleForAutoScaling use it "
                    "and create grants; without that, instances end as they start"
                )
            if isinstance(pool, EksPoolPlan):
                found += _of_reserved(pool)
                if pool.nodes.autoscaled:
                    found.append(
                        f"{at} between {pool.nodes.min} and {pool.nodes.max} nodes nothing scales "
                        "it by itself: slicewright installs no autoscaler on EKS; its tags tell "
                        "cluster-autoscaler what its nodes will offer"
                    )
            if isinstance(pool, EksPoolPlan) and isinstance(fleet, EksFleetPlan):
                found += _of_nodes(pool, fleet.cluster)
            if machine.note:
                found.append(f"{at} {machine.name}: {machine.note}")
            if pool.spot and pool.nodes.max == 1:
                found.append(
                    f"{at} one preemption removes all {pool.advertised} devices that it offers"
                )
        if isinstance(pool, GkePoolPlan):
            found += [*_reserved(pool), *_limited(pool), *_extra_nodes(pool)]
        if isinstance(pool, GkePoolPlan) and pool.driver == "LATEST":
            found.append(
                f"{at} driver LATEST changes without notice; the agents report what they find"
            )
        if not isinstance(pool, GkePoolPlan) and any(s.strategy == "mps" for s in pool.sharing):
            # NVIDIA/k8s-device-plugin #1645, #1827. Versions that are known for it are refused
            # (plan/device_plugin.py).
            found.append(
                f"{at} not known whether this operator brings MPS up: up to v26.7.1 NVIDIA's MPS "
                "daemon does not get the config that the nodes' label chooses, and they offer no "
                "GPU"
            )
        if pool.gpu.mode_change_resets and pool.partitioned:
            found.append(
                f"{at} switching MIG on or off resets {pool.gpu.name}: in a cloud the node "
                "reboots, which takes 10 to 15 minutes"
            )
            if (
                fleet.operator is not None
                and pool.mig_config
                and not fleet.operator.mig_manager.with_reboot
            ):
                found.append(
                    f"{at} most clouds refuse that reset, and "
                    "gpu_operator.mig_manager.with_reboot is false"
                )
            if fleet.verify_timeout_minutes < _REBOOT_MINUTES:
                found.append(
                    f"{at} verify_timeout_minutes is {fleet.verify_timeout_minutes}, so that "
                    f"`pulumi up` may give up before the reboot is over; write {_REBOOT_MINUTES} "
                    "or more"
                )
        driver = driver_of(pool, fleet)
        if (
            pool.gpu.family is None
            and driver.version
            and driver_order(driver.version) < driver_order(pool.gpu.minimum_driver)
        ):
            least = pool.gpu.minimum_driver
            found.append(
                f"{at} driver {driver.version} may be too old: the oldest known to support "
                f"{pool.gpu.name} is {least}"
            )
        if pool.layout is None:
            found.append(
                f"{at} GPUs are partitioned by index, and a driver may number them differently "
                "after a reboot"
            )
        for share in pool.sharing:
            if share.strategy == "time-slicing":
                found.append(
                    f"{at} pods that share {share.resource} share its memory too: one of them "
                    "can use it all"
                )
                break
    return tuple(found)
