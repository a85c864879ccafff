"""The pod of the fleet controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pulumi
import pulumi_kubernetes as k8s

from slicewright.apis import names
from slicewright.infra import delivery
from slicewright.infra.components import pods

LABELS: Final = {"app.kubernetes.io/name": "fleet-controller", **pods.PART_OF}


def controller_pod(
    image: pods.Image,
    node_selector: Mapping[str, str],
    zipapp: delivery.Zipapp,
    code: pulumi.Input[str],
) -> k8s.core.v1.PodSpecArgs:
    """code: name of the ConfigMap with the zipapp."""
    return k8s.core.v1.PodSpecArgs(
        service_account_name=names.CONTROLLER_SERVICE_ACCOUNT,
        priority_class_name=names.CONTROLLER_PRIORITY_CLASS,
        image_pull_secrets=image.references(),
        node_selector=dict(node_selector) or None,
        topology_spread_constraints=[
            k8s.core.v1.TopologySpreadConstraintArgs(
                max_skew=1,
                topology_key=key,
                # Two replicas run even on a system pool of one node, or in one zone.
                when_unsatisfiable="ScheduleAnyway",
                label_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=LABELS),
            )
            for key in ("kubernetes.io/hostname", names.ZONE_LABEL)
        ],
        security_context=pods.unprivileged(),
        containers=[_container(image.name, zipapp)],
        volumes=[pods.code_volume(code)],
    )


def _container(image: str, zipapp: delivery.Zipapp) -> k8s.core.v1.ContainerArgs:
    return k8s.core.v1.ContainerArgs(
        name="fleet-controller",
        image=image,
        command=pods.command(zipapp),
        env=[
            pods.field("POD_IP", "status.podIP"),
            pods.field("POD_NAME", "metadata.name"),
            pods.field("POD_NAMESPACE", "metadata.namespace"),
        ],
        ports=[k8s.core.v1.ContainerPortArgs(name="http", container_port=names.CONTROLLER_PORT)],
        readiness_probe=pods.readiness(),
        liveness_probe=pods.liveness(),
        resources=k8s.core.v1.ResourceRequirementsArgs(
            requests={"cpu": "50m", "memory": "96Mi"}, limits={"memory": "256Mi"}
        ),
        security_context=pods.restricted(),
        volume_mounts=[pods.code_mount()],
    )
