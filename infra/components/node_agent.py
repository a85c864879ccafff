"""The node agents: one account and policy for all, one desired-state file and DaemonSet per pool.

The agent keeps running while mig-manager changes a layout: its DaemonSet does not have the
nodeSelector `nvidia.com/gpu.deploy.client`, with which the GPU Operator (26.7 and newer) removes
NVML clients for that time. The agent opens NVML only for a probe, and does not probe while the
state is pending or rebooting, so it does not interfere, and the node's state stays visible. On
charts up to 26.3.3 the selector would match no node at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from apis import names, rights
from apis.admission import policies
from infra import delivery, values
from infra.components import admission, attribution, code_map, pods
from infra.plan import (
    EksSettings,
    ExistingSettings,
    GkeSettings,
    PoolPlan,
    asks_by_mount,
)
from infra.spec import GpuOperator, NodeAgent

_GKE_DRIVER = "/home/kubernetes/bin/nvidia"
"""Where GKE installs the driver on the host. Source:
GoogleCloudPlatform/container-engine-accelerators, cmd/nvidia_gpu.
"""


_BY_MOUNT = "/var/run/nvidia-container-devices"
"""Where NVIDIA's runtime looks for mounts that name a container's devices. Bottlerocket's does so,
and the operator's with `device_list: volume-mounts`. Source: bottlerocket.dev,
settings.nvidia-container-runtime; NVIDIA/k8s-device-plugin, internal/plugin/server.go.
"""
_ALL_GPUS = f"{_BY_MOUNT}/all"


class NodeAgents(pulumi.ComponentResource):
    """Outputs: `daemon_sets` by pool, and `guards`, which limit an agent to its own report."""

    daemon_sets: Mapping[str, pulumi.Resource]
    guards: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        *,
        pools: Sequence[PoolPlan],
        operator: GpuOperator | None,
        image: pods.Image,
        settings: NodeAgent,
        namespace: pulumi.Input[str],
        cluster: pulumi.Resource | None,
        after: Sequence[pulumi.Input[pulumi.Resource]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """after: the CRDs of the custom resources that the agents write."""
        super().__init__("slicewright:index:NodeAgents", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self, deleted_with=cluster)
        rights = self._rights(name, namespace, child)
        self.guards = admission.in_force(
            f"{name}-policy",
            policies.report_policy(),
            pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=list(after))),
        )
        zipapp = delivery.node_agent()
        delivered = code_map.delivered(
            name, zipapp, title="node-agent", namespace=namespace, opts=child
        )
        daemon_sets: dict[str, pulumi.Resource] = {}
        for pool in pools:
            desired_name = f"desired-{pool.name}-{pool.offer.layout_hash[:8]}"
            desired = k8s.core.v1.ConfigMap(
                f"{name}-{desired_name}",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=desired_name, namespace=namespace),
                immutable=True,
                data={"desired.json": pool.offer.desired},
                opts=child,
            )
            labels = {
                "app.kubernetes.io/name": "node-agent",
                **pods.PART_OF,
                names.POOL_LABEL: pool.name,
            }
            daemon_sets[pool.name] = k8s.apps.v1.DaemonSet(
                f"{name}-{pool.name}",
                metadata=k8s.meta.v1.ObjectMetaArgs(
                    name=f"node-agent-{pool.name}",
                    namespace=namespace,
                    labels=labels,
                    # `up` waits for the pool; a DaemonSet would wait 10 minutes for one dead node,
                    # and report less.
                    annotations={"pulumi.com/skipAwait": "true"},
                ),
                spec=k8s.apps.v1.DaemonSetSpecArgs(
                    selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels),
                    update_strategy=k8s.apps.v1.DaemonSetUpdateStrategyArgs(
                        type="RollingUpdate",
                        rolling_update=k8s.apps.v1.RollingUpdateDaemonSetArgs(
                            max_unavailable="25%"
                        ),
                    ),
                    template=k8s.core.v1.PodTemplateSpecArgs(
                        metadata=k8s.meta.v1.ObjectMetaArgs(
                            labels=labels, annotations=_annotations(pool, settings)
                        ),
                        spec=_pod(
                            pool,
                            image,
                            settings,
                            zipapp,
                            delivered.config_map,
                            desired.metadata.name,
                            by_mount=asks_by_mount(pool, operator),
                        ),
                    ),
                ),
                opts=pulumi.ResourceOptions(
                    parent=self, deleted_with=cluster, depends_on=[*rights, *self.guards, *after]
                ),
            )
        self.daemon_sets = daemon_sets
        self.register_outputs({"untouched": delivered.untouched})

    def _rights(
        self, name: str, namespace: pulumi.Input[str], child: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        object_name = "slicewright-node-agent"
        account = k8s.core.v1.ServiceAccount(
            f"{name}-account",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=names.AGENT_SERVICE_ACCOUNT, namespace=namespace
            ),
            opts=child,
        )
        role = k8s.rbac.v1.ClusterRole(
            f"{name}-role",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=object_name),
            rules=[
                k8s.rbac.v1.PolicyRuleArgs(
                    api_groups=r["apiGroups"], resources=r["resources"], verbs=r["verbs"]
                )
                for r in rights.AGENT_RULES
            ],
            opts=child,
        )
        binding = k8s.rbac.v1.ClusterRoleBinding(
            f"{name}-binding",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=object_name),
            role_ref=k8s.rbac.v1.RoleRefArgs(
                api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=role.metadata.name
            ),
            subjects=[
                k8s.rbac.v1.SubjectArgs(
                    kind="ServiceAccount", name=names.AGENT_SERVICE_ACCOUNT, namespace=namespace
                )
            ],
            opts=child,
        )
        return [account, binding]


def _annotations(pool: PoolPlan, settings: NodeAgent) -> dict[str, str]:
    # With two containers, `kubectl logs` needs a default one.
    which = (
        {"kubectl.kubernetes.io/default-container": "node-agent"} if settings.attribution else {}
    )
    return {"slicewright.io/layout-hash": pool.offer.layout_hash, **which}


def _named_layout(pool: PoolPlan) -> list[str]:
    return ["--mig-config", pool.offer.mig_config] if pool.offer.mig_config else []


def _measured(settings: NodeAgent) -> list[str]:
    return ["--utilization"] if settings.utilization else []


def _pod(
    pool: PoolPlan,
    image: pods.Image,
    settings: NodeAgent,
    zipapp: delivery.Zipapp,
    code: pulumi.Input[str],
    desired: pulumi.Input[str],
    *,
    by_mount: bool,
) -> k8s.core.v1.PodSpecArgs:
    by_gke = isinstance(pool.settings, GkeSettings) and not pool.operated
    mounts = [
        k8s.core.v1.VolumeMountArgs(name="code", mount_path=pods.CODE_DIRECTORY, read_only=True),
        k8s.core.v1.VolumeMountArgs(name="desired", mount_path="/etc/slicewright", read_only=True),
        k8s.core.v1.VolumeMountArgs(name="restarts", mount_path="/run/slicewright"),
    ]
    volumes = [
        k8s.core.v1.VolumeArgs(
            name="code", config_map=k8s.core.v1.ConfigMapVolumeSourceArgs(name=code)
        ),
        k8s.core.v1.VolumeArgs(
            name="desired", config_map=k8s.core.v1.ConfigMapVolumeSourceArgs(name=desired)
        ),
        # What a container of the agent leaves to the next one, when it ended for new device nodes.
        k8s.core.v1.VolumeArgs(
            name="restarts", empty_dir=k8s.core.v1.EmptyDirVolumeSourceArgs(size_limit="1Mi")
        ),
    ]
    if by_gke:
        mounts.append(
            k8s.core.v1.VolumeMountArgs(
                name="driver", mount_path="/usr/local/nvidia", read_only=True
            )
        )
        volumes.append(
            k8s.core.v1.VolumeArgs(
                name="driver",
                host_path=k8s.core.v1.HostPathVolumeSourceArgs(
                    path=_GKE_DRIVER, type="DirectoryOrCreate"
                ),
            )
        )
    if by_mount:
        mounts.append(
            k8s.core.v1.VolumeMountArgs(name="all-gpus", mount_path=_ALL_GPUS, read_only=True)
        )
        volumes.append(
            k8s.core.v1.VolumeArgs(
                name="all-gpus",
                host_path=k8s.core.v1.HostPathVolumeSourceArgs(path="/dev/null", type="CharDevice"),
            )
        )
    others = []
    if settings.attribution:
        mounts.append(attribution.token_mount())
        volumes += attribution.volumes()
        others.append(attribution.container(image.name, zipapp))
    return k8s.core.v1.PodSpecArgs(
        service_account_name=names.AGENT_SERVICE_ACCOUNT,
        priority_class_name=names.AGENT_PRIORITY_CLASS,
        image_pull_secrets=image.references(),
        automount_service_account_token=False if settings.attribution else None,
        node_selector={names.POOL_LABEL: pool.name},
        tolerations=[_toleration(t) for t in values.tolerations([pool])],
        runtime_class_name=_runtime_class(pool),
        termination_grace_period_seconds=10,
        security_context=pods.unprivileged(),
        containers=[
            k8s.core.v1.ContainerArgs(
                name="node-agent",
                image=image.name,
                command=pods.command(
                    zipapp,
                    "watch",
                    "--desired",
                    "/etc/slicewright/desired.json",
                    *_named_layout(pool),
                    *_measured(settings),
                ),
                env=[
                    pods.field("NODE_NAME", "spec.nodeName"),
                    pods.field("POD_IP", "status.podIP"),
                    *_driver_environment(pool, by_gke=by_gke),
                ],
                ports=[k8s.core.v1.ContainerPortArgs(name="http", container_port=names.AGENT_PORT)],
                readiness_probe=pods.readiness(),
                liveness_probe=pods.liveness(),
                resources=k8s.core.v1.ResourceRequirementsArgs(
                    requests={"cpu": "50m", "memory": "64Mi"}, limits={"memory": "192Mi"}
                ),
                security_context=_gke_security() if by_gke else pods.restricted(),
                volume_mounts=mounts,
            ),
            *others,
        ],
        volumes=volumes,
    )


def _runtime_class(pool: PoolPlan) -> str | None:
    """The class of NVIDIA's runtime, where it is not containerd's default one.

    It is on EKS's GPU images (awslabs/amazon-eks-ami, nodeadm, default_runtime_name). On GKE the
    operator's toolkit adds it beside GKE's (NVIDIA/gpu-operator, transformToolkitCtrForCDI). Of
    other nodes nothing is known but that the operator's operands run there, which name this class.
    Until the operator has made it, no pod of the agent is.
    """
    named = isinstance(pool.settings, ExistingSettings) or (
        isinstance(pool.settings, GkeSettings) and pool.operated
    )
    return values.RUNTIME_CLASS if named else None


def _gke_security() -> k8s.core.v1.SecurityContextArgs:
    """A privileged container, as Google's own DCGM exporter has.

    On GKE no runtime gives device nodes to a pod that requests no GPU, and the agent must not
    request one. The process runs as an ordinary user without capabilities.
    """
    return k8s.core.v1.SecurityContextArgs(privileged=True, read_only_root_filesystem=True)


def _driver_environment(pool: PoolPlan, *, by_gke: bool) -> list[k8s.core.v1.EnvVarArgs]:
    """The variable stays beside the operator's mount: while `device_list` changes, a node's runtime
    obeys one or the other.
    """
    visible = (
        _BY_MOUNT
        if isinstance(pool.settings, EksSettings) and pool.settings.bottlerocket
        else "all"
    )
    wanted = (
        {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
        if by_gke
        else {"NVIDIA_VISIBLE_DEVICES": visible, "NVIDIA_DRIVER_CAPABILITIES": "utility"}
    )
    return [k8s.core.v1.EnvVarArgs(name=name, value=value) for name, value in wanted.items()]


def _toleration(toleration: Mapping[str, Any]) -> k8s.core.v1.TolerationArgs:
    return k8s.core.v1.TolerationArgs(**toleration)
