"""The NVIDIA GPU Operator, pinned, with the layouts of every pool that mig-manager partitions."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from infra import values
from infra.components import quota
from infra.components.helm_release import helm_release
from infra.plan import EksFleetPlan, FleetPlan, GkeFleetPlan

_RELEASE_TIMEOUT_S = 600


class GpuOperator(pulumi.ComponentResource):
    """Output: `release`, which is ready when the operator's Deployment is; nodes come later."""

    release: k8s.helm.v3.Release

    def __init__(
        self,
        name: str,
        plan: FleetPlan,
        *,
        cluster: pulumi.Resource | None,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """plan: with an operator. after: the nodes that run the operator's own pods."""
        super().__init__("slicewright:index:GpuOperator", name, {}, opts)
        assert plan.operator is not None
        child = pulumi.ResourceOptions(parent=self, deleted_with=cluster)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=plan.operator.namespace,
                # The operands use drivers, device nodes and host paths.
                labels={"pod-security.kubernetes.io/enforce": "privileged"},
            ),
            opts=child,
        )
        # The operator, its operands and NFD are of the critical priority classes. A cluster that
        # exists may be GKE's.
        limited = not isinstance(plan, EksFleetPlan)
        allowed = [quota.critical_pods(name, namespace.metadata.name, child)] if limited else []
        if isinstance(plan, GkeFleetPlan):
            for installer in values.driver_installers(plan):
                self._driver_installer(name, installer, namespace, [*allowed, *after], cluster)
        files = values.operator_files(plan)
        configs = config_maps(name, files, namespace=namespace.metadata.name, opts=child)
        self.release = helm_release(
            name,
            release=plan.operator.release,
            namespace=namespace.metadata.name,
            address=values.chart_of(plan.operator),
            version=plan.operator.chart_version,
            settings=values.operator_values(plan, files),
            timeout_s=_RELEASE_TIMEOUT_S,
            opts=pulumi.ResourceOptions(
                parent=self, deleted_with=cluster, depends_on=[*configs, *allowed, *after]
            ),
        )
        self.register_outputs({})

    def _driver_installer(
        self,
        name: str,
        manifest: values.JsonObject,
        namespace: k8s.core.v1.Namespace,
        after: Sequence[pulumi.Resource],
        cluster: pulumi.Resource | None,
    ) -> None:
        own_name: str = manifest["metadata"]["name"]
        k8s.apps.v1.DaemonSet(
            f"{name}-{own_name}",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=own_name,
                namespace=namespace.metadata.name,
                labels=manifest["metadata"]["labels"],
                # `up` waits for the pools, and says more of a node without a driver.
                annotations={"pulumi.com/skipAwait": "true"},
            ),
            spec=manifest["spec"],
            opts=pulumi.ResourceOptions(parent=self, deleted_with=cluster, depends_on=list(after)),
        )


def config_maps(
    name: str,
    files: values.OperatorFiles,
    *,
    namespace: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """The files of the operands. name: of the component."""
    return [
        k8s.core.v1.ConfigMap(
            # A new name is a new resource too, so that the old one stays until the operator has
            # changed over.
            f"{name}-{config.name}",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=config.name, namespace=namespace),
            immutable=True,
            data=dict(config.data),
            opts=opts,
        )
        for config in files
    ]
