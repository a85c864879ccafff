"""The pod of a node agent."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from slicewright.apis import names
from slicewright.infra import delivery, manifests
from slicewright.infra.components import pods
from slicewright.infra.components.fleet import attribution
from slicewright.infra.components.fleet.node_agent_gpu_access import GpuAccess, gpu_access
from slicewright.infra.plan import PoolPlan
from slicewright.infra.stack_file import GpuOperator, NodeAgent


@dataclass(frozen=True, kw_only=True)
class AgentPod:
    """The inputs of agents' pods that are the same for every pool."""

    image: pods.Image
    settings: NodeAgent
    operator: GpuOperator | None
    zipapp: delivery.Zipapp
    code: pulumi.Input[str]
    """Name of the ConfigMap with the zipapp."""

    def template(
        self, pool: PoolPlan, labels: dict[str, str], desired_state: pulumi.Input[str]
    ) -> k8s.core.v1.PodTemplateSpecArgs:
        """desired_state: name of the pool's ConfigMap."""
        annotations = {"slicewright.io/layout-hash": pool.offer.layout_hash}
        if self._attributes(pool):
            # With two containers, `kubectl logs` needs a default one.
            annotations["kubectl.kubernetes.io/default-container"] = "node-agent"
        return k8s.core.v1.PodTemplateSpecArgs(
            metadata=k8s.meta.v1.ObjectMetaArgs(labels=labels, annotations=annotations),
            spec=self.spec(pool, desired_state),
        )

    def spec(self, pool: PoolPlan, desired_state: pulumi.Input[str]) -> k8s.core.v1.PodSpecArgs:
        """desired_state: name of the pool's ConfigMap."""
        access = gpu_access(pool, self.operator)
        attributes = self._attributes(pool)
        return k8s.core.v1.PodSpecArgs(
            service_account_name=names.AGENT_SERVICE_ACCOUNT,
            priority_class_name=names.AGENT_PRIORITY_CLASS,
            image_pull_secrets=self.image.references(),
            automount_service_account_token=False if attributes else None,
            node_selector={names.POOL_LABEL: pool.name},
            tolerations=[
                k8s.core.v1.TolerationArgs(**toleration)
                for toleration in manifests.tolerations([pool])
            ],
            runtime_class_name=access.runtime_class,
            termination_grace_period_seconds=10,
            security_context=pods.unprivileged(),
            containers=[
                self._container(pool, access),
                *([attribution.container(self.image.name, self.zipapp)] if attributes else []),
            ],
            volumes=[
                *self._volumes(desired_state),
                *(mount.volume() for mount in access.host_mounts),
                *(attribution.volumes() if attributes else []),
            ],
        )

    def _attributes(self, pool: PoolPlan) -> bool:
        """True if the pod tells which pod holds which device.

        The kubelet does not know the cards of shares: the engine's plugin gives a container other
        ones than the kubelet chose. The fleet controller exports them instead.
        """
        return self.settings.attribution and pool.offer.expected.shares is None

    def _container(self, pool: PoolPlan, access: GpuAccess) -> k8s.core.v1.ContainerArgs:
        return k8s.core.v1.ContainerArgs(
            name="node-agent",
            image=self.image.name,
            command=self._command(pool),
            env=[
                pods.field("NODE_NAME", "spec.nodeName"),
                pods.field("POD_IP", "status.podIP"),
                *(
                    k8s.core.v1.EnvVarArgs(name=name, value=value)
                    for name, value in access.environment.items()
                ),
            ],
            ports=[k8s.core.v1.ContainerPortArgs(name="http", container_port=names.AGENT_PORT)],
            readiness_probe=pods.readiness(),
            liveness_probe=pods.liveness(),
            resources=k8s.core.v1.ResourceRequirementsArgs(
                requests={"cpu": "50m", "memory": "64Mi"}, limits={"memory": "192Mi"}
            ),
            security_context=access.security_context,
            volume_mounts=self._mounts(pool, access),
        )

    def _command(self, pool: PoolPlan) -> list[str]:
        return pods.command(
            self.zipapp,
            "watch",
            "--desired",
            "/etc/slicewright/desired.json",
            *(["--mig-config", pool.offer.mig_config] if pool.offer.mig_config else []),
            *(["--utilization"] if self.settings.utilization else []),
        )

    def _mounts(self, pool: PoolPlan, access: GpuAccess) -> list[k8s.core.v1.VolumeMountArgs]:
        return [
            pods.code_mount(),
            k8s.core.v1.VolumeMountArgs(
                name="desired", mount_path="/etc/slicewright", read_only=True
            ),
            k8s.core.v1.VolumeMountArgs(name="restarts", mount_path="/run/slicewright"),
            *(mount.mount() for mount in access.host_mounts),
            *([attribution.token_mount()] if self._attributes(pool) else []),
        ]

    def _volumes(self, desired_state: pulumi.Input[str]) -> list[k8s.core.v1.VolumeArgs]:
        return [
            pods.code_volume(self.code),
            k8s.core.v1.VolumeArgs(
                name="desired",
                config_map=k8s.core.v1.ConfigMapVolumeSourceArgs(name=desired_state),
            ),
            # A container that ends because of new device nodes leaves a note here for the next one.
            k8s.core.v1.VolumeArgs(
                name="restarts", empty_dir=k8s.core.v1.EmptyDirVolumeSourceArgs(size_limit="1Mi")
            ),
        ]
