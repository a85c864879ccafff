"""Karpenter on EKS: values of its charts, and a pool as its objects.

Sources: aws/karpenter-provider-aws v1.15.1, charts/karpenter/values.yaml, pkg/apis/crds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from slicewright.apis.names import STARTUP_TAINT_KEY
from slicewright.infra.manifests.eks.user_data import user_data_text
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import (
    SYSTEM_LABELS,
    EksFleetPlan,
    EksPoolPlan,
    EksTemplate,
    KarpenterPlan,
    KarpenterPool,
    Taint,
)
from slicewright.infra.stack_file import CapacityBlock, Reservation

KARPENTER_NAMESPACE: Final = "kube-system"
KARPENTER_NAME: Final = "karpenter"
"""The name of chart, release, Deployment and service account."""
KARPENTER_CRDS: Final = "karpenter-crd"
"""The name of chart and release. Helm never upgrades definitions in a chart's `crds` directory."""
NODE_API: Final = "karpenter.sh/v1"
OVERLAY_API: Final = "karpenter.sh/v1alpha1"
CLASS_API: Final = "karpenter.k8s.aws/v1"
_ROOT_DEVICE: Final = "/dev/xvda"
"""The root device of Amazon Linux 2023. Source: EC2 user guide, device names for volumes."""
_STORES: Final[Mapping[str, str]] = {"raid0": "RAID0"}
_REPLICAS: Final = 2


def karpenter_chart(plan: KarpenterPlan, name: str) -> str:
    return f"{plan.repository}/{name}"


def karpenter_values(fleet: EksFleetPlan) -> JsonObject:
    """The chart's values. `fleet` must have Karpenter."""
    queue = karpenter_plan(fleet).interruption_queue
    return {
        # Two replicas never share a node: without a second node, the release would not get ready.
        "replicas": min(_REPLICAS, fleet.system.nodes.min),
        # Never on a node that Karpenter itself may remove.
        "nodeSelector": dict(SYSTEM_LABELS),
        "serviceAccount": {"name": KARPENTER_NAME},
        "controller": {
            "resources": {
                "requests": {"cpu": "250m", "memory": "1Gi"},
                "limits": {"memory": "1Gi"},
            },
        },
        "settings": {
            "clusterName": fleet.cluster.name,
            **({"interruptionQueue": queue} if queue else {}),
            "featureGates": {"nodeOverlay": bool(_pools_with_overlay(fleet))},
        },
    }


def karpenter_plan(fleet: EksFleetPlan) -> KarpenterPlan:
    assert isinstance(fleet.cluster.autoscaler, KarpenterPlan)
    return fleet.cluster.autoscaler


def _pools_with_overlay(fleet: EksFleetPlan) -> list[EksPoolPlan]:
    return [
        pool for pool in fleet.pools if pool.settings.karpenter and pool.settings.karpenter.overlay
    ]


def node_class(
    pool: EksPoolPlan, *, role: Any, subnet_ids: Sequence[Any], security_group: Any
) -> JsonObject:
    """The spec of the pool's EC2NodeClass.

    role: name of the nodes' role: Karpenter makes an instance profile for it. security_group: ID
    of the cluster's. All three may still be unknown.
    """
    settings, template = _karpenter_settings(pool)
    reservation = _reservation(pool)
    store = template.instance_store
    # Karpenter makes nodeadm's settings of the instance store itself.
    boot_only = replace(template, instance_store=None)
    return {
        "amiSelectorTerms": [{"alias": settings.image}],
        "role": role,
        "subnetSelectorTerms": [{"id": subnet} for subnet in subnet_ids],
        "securityGroupSelectorTerms": [{"id": security_group}],
        **({"capacityReservationSelectorTerms": [{"id": reservation}]} if reservation else {}),
        "blockDeviceMappings": [_root_volume(template)],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": template.hop_limit,
            "httpTokens": "required",
        },
        **({"instanceStorePolicy": _STORES[store]} if store else {}),
        **({"userData": user_data_text(boot_only)} if template.boot else {}),
        **({"tags": dict(template.tags)} if template.tags else {}),
    }


def _root_volume(template: EksTemplate) -> JsonObject:
    return {
        "deviceName": _ROOT_DEVICE,
        "rootVolume": True,
        "ebs": {
            "volumeSize": f"{template.disk_gb}Gi",
            "volumeType": "gp3",
            "encrypted": template.encrypted,
            **({"kmsKeyID": template.kms_key} if template.kms_key else {}),
            "deleteOnTermination": True,
        },
    }


def node_pool(pool: EksPoolPlan, plan: KarpenterPlan) -> JsonObject:
    """The spec of the pool's NodePool. NodePool and EC2NodeClass have the pool's name."""
    return {
        "template": {
            "metadata": {"labels": dict(pool.labels)},
            "spec": _node_claim(pool),
        },
        "disruption": _disruption(pool, plan),
        "limits": {"nodes": str(pool.nodes.max)},
    }


def _node_claim(pool: EksPoolPlan) -> JsonObject:
    settings, _ = _karpenter_settings(pool)
    drain_minutes = settings.drain_minutes
    startup_taints = [taint for taint in pool.taints if taint.key == STARTUP_TAINT_KEY]
    lasting_taints = [taint for taint in pool.taints if taint.key != STARTUP_TAINT_KEY]
    return {
        "nodeClassRef": {
            "group": CLASS_API.partition("/")[0],
            "kind": "EC2NodeClass",
            "name": pool.name,
        },
        "requirements": [
            _in_requirement("node.kubernetes.io/instance-type", pool.settings.machine_types),
            _in_requirement("karpenter.sh/capacity-type", [_capacity_type(pool)]),
        ],
        "taints": [_taint(taint) for taint in lasting_taints],
        "startupTaints": [_taint(taint) for taint in startup_taints],
        # An expiry would end pods that use GPUs, and ignore the disruption budgets.
        "expireAfter": "Never",
        **({"terminationGracePeriod": f"{drain_minutes}m"} if drain_minutes else {}),
    }


def _disruption(pool: EksPoolPlan, plan: KarpenterPlan) -> JsonObject:
    settings, _ = _karpenter_settings(pool)
    policy = "WhenEmpty" if plan.consolidation == "empty" else "WhenEmptyOrUnderutilized"
    return {
        "consolidationPolicy": policy,
        "consolidateAfter": f"{plan.empty_minutes}m",
        "budgets": [
            {"nodes": settings.replaced_together, "reasons": ["Drifted", "Underutilized"]},
            {"nodes": "100%", "reasons": ["Empty"]},
        ],
    }


def node_overlay(pool: EksPoolPlan) -> JsonObject | None:
    """The spec of the pool's NodeOverlay. None if Karpenter knows all that a node offers."""
    settings, _ = _karpenter_settings(pool)
    if not settings.overlay:
        return None
    return {
        "requirements": [_in_requirement("karpenter.sh/nodepool", [pool.name])],
        "capacity": {name: str(count) for name, count in settings.overlay.items()},
    }


def _karpenter_settings(pool: EksPoolPlan) -> tuple[KarpenterPool, EksTemplate]:
    assert pool.settings.karpenter is not None
    assert pool.settings.template is not None
    return pool.settings.karpenter, pool.settings.template


def _reservation(pool: EksPoolPlan) -> str | None:
    match pool.settings.capacity:
        case Reservation(reservation=name) | CapacityBlock(reservation=name):
            return name
        case _:
            return None


def _capacity_type(pool: EksPoolPlan) -> str:
    if pool.settings.spot:
        return "spot"
    return "reserved" if _reservation(pool) else "on-demand"


def _in_requirement(key: str, values: Sequence[str]) -> JsonObject:
    return {"key": key, "operator": "In", "values": list(values)}


def _taint(taint: Taint) -> JsonObject:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}
