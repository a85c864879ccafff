"""The pinned NVIDIA GPU Operator, with the layouts of every pool that mig-manager partitions."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from slicewright.infra import manifests
from slicewright.infra.components import quota
from slicewright.infra.components.helm_release import helm_release
from slicewright.infra.plan import EksFleetPlan, FleetPlan, GkeFleetPlan

_RELEASE_TIMEOUT_S = 600


class GpuOperator(pulumi.ComponentResource):
    """Output: `release`. It is ready when the operator's Deployment is. Nodes come later."""

    release: k8s.helm.v3.Release

    def __init__(
        self,
        name: str,
        plan: FleetPlan,
        *,
        cluster: pulumi.Resource | None,
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """plan: a fleet with an operator. depends_on: the nodes that run the operator's pods."""
        super().__init__("slicewright:index:GpuOperator", name, {}, opts)
        assert plan.operator is not None
        child = pulumi.ResourceOptions(parent=self, deleted_with=cluster)
        namespace = _namespace(name, plan.operator.namespace, child)
        # The operator, its operands and NFD have critical priority classes, which GKE admits only
        # with a quota. An existing cluster may be GKE's.
        needs_quota = not isinstance(plan, EksFleetPlan)
        prerequisites: list[pulumi.Resource] = [
            *([quota.critical_pods(name, namespace, child)] if needs_quota else []),
            *depends_on,
        ]
        if isinstance(plan, GkeFleetPlan):
            options = pulumi.ResourceOptions.merge(
                child, pulumi.ResourceOptions(depends_on=prerequisites)
            )
            for installer in manifests.driver_installers(plan):
                _driver_installer(name, installer, namespace, options)
        files = manifests.operator_files(plan)
        configs = config_maps(name, files, namespace=namespace, opts=child)
        self.release = helm_release(
            name,
            release=plan.operator.release,
            namespace=namespace,
            address=manifests.chart_of(plan.operator),
            version=plan.operator.chart_version,
            settings=manifests.operator_values(plan, files),
            timeout_s=_RELEASE_TIMEOUT_S,
            opts=pulumi.ResourceOptions.merge(
                child, pulumi.ResourceOptions(depends_on=[*configs, *prerequisites])
            ),
        )
        self.register_outputs({})


def _namespace(name: str, object_name: str, child: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Creates the operator's namespace. Returns its name."""
    namespace = k8s.core.v1.Namespace(
        f"{name}-namespace",
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=object_name,
            # The operands use drivers, device nodes and host paths.
            labels={"pod-security.kubernetes.io/enforce": "privileged"},
        ),
        opts=child,
    )
    namespace_name: pulumi.Output[str] = namespace.metadata.name
    return namespace_name


def _driver_installer(
    name: str,
    manifest: manifests.JsonObject,
    namespace: pulumi.Input[str],
    options: pulumi.ResourceOptions,
) -> None:
    object_name: str = manifest["metadata"]["name"]
    k8s.apps.v1.DaemonSet(
        f"{name}-{object_name}",
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=object_name,
            namespace=namespace,
            labels=manifest["metadata"]["labels"],
            # `up` waits for the pools, and reports more about a node without a driver.
            annotations={"pulumi.com/skipAwait": "true"},
        ),
        spec=manifest["spec"],
        opts=options,
    )


def config_maps(
    name: str,
    files: manifests.OperatorFiles,
    *,
    namespace: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """The files of the operands. name: the component's name."""
    return [
        k8s.core.v1.ConfigMap(
            # A new name is a new resource too, so that the old one stays until the operator uses
            # the new one.
            f"{name}-{config.name}",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=config.name, namespace=namespace),
            immutable=True,
            data=dict(config.data),
            opts=opts,
        )
        for config in files
    ]
