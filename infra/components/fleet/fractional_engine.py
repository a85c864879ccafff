"""The engine that shares GPUs by fractions: its charts, and the policies on pods and nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from slicewright.apis.admission.share_policy import share_node_policy, share_policy
from slicewright.infra import manifests
from slicewright.infra.components import quota
from slicewright.infra.components.fleet.admission import enforce_policy
from slicewright.infra.components.fleet.adopted_volcano import fitting_volcano
from slicewright.infra.components.helm_release import helm_release
from slicewright.infra.manifests import EngineChart
from slicewright.infra.plan import EksFleetPlan, FleetPlan

_RELEASE_TIMEOUT_S = 600


class FractionalEngine(pulumi.ComponentResource):
    """Output: `releases`. Pods with shares may be created once these and the policies exist."""

    releases: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: FleetPlan,
        *,
        cluster: pulumi.Resource | None,
        depends_on: Sequence[pulumi.Input[pulumi.Resource]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """fleet: with an engine that the stack installs. depends_on: the nodes that run the
        scheduler, and the GPU operator, whose runtime class the device plugin may need.
        """
        super().__init__("slicewright:index:FractionalEngine", name, {}, opts)
        self._name = name
        self._child = pulumi.ResourceOptions(parent=self, deleted_with=cluster)
        # The charts' pods have critical priority classes, which GKE admits only with a quota. An
        # existing cluster may be GKE's.
        self._needs_quota = not isinstance(fleet, EksFleetPlan)
        guards = self._guard(fleet)
        adopted = self._adopt(fleet)
        self.releases = [
            self._release(chart, [*guards, *adopted, *depends_on])
            for chart in manifests.engine_charts(fleet)
        ]
        self.register_outputs({})

    def _adopt(self, fleet: FleetPlan) -> list[pulumi.Output[pulumi.Resource]]:
        """An existing scheduler's ConfigMap, once it fits. Empty if the stack installs one."""
        engine, namespace = fleet.engine, manifests.engine_namespace(fleet)
        if engine is None or namespace is None or not engine.settings.existing:
            return []
        return [fitting_volcano(self._name, engine, namespace, self._child)]

    def _guard(self, fleet: FleetPlan) -> list[pulumi.Resource]:
        shared = {
            pool.name: pool.offer.expected.shares.engine
            for pool in fleet.pools
            if pool.offer.expected.shares is not None
        }
        (engine,) = set(shared.values())
        return [
            *enforce_policy(f"{self._name}-policy", share_policy(engine), self._child),
            *enforce_policy(
                f"{self._name}-node-policy",
                share_node_policy(engine, pools=list(shared)),
                self._child,
            ),
        ]

    def _release(
        self, chart: EngineChart, depends_on: Sequence[pulumi.Input[pulumi.Resource]]
    ) -> pulumi.Resource:
        name = f"{self._name}-{chart.release}"
        namespace: pulumi.Input[str] = chart.namespace
        quotas: list[pulumi.Resource] = []
        if chart.creates_namespace:
            namespace = self._create_namespace(name, chart.namespace)
            if self._needs_quota:
                quotas = [quota.critical_pods(name, namespace, self._child)]
        return helm_release(
            name,
            release=chart.release,
            namespace=namespace,
            address=chart.address,
            version=chart.version,
            settings=chart.values,
            timeout_s=_RELEASE_TIMEOUT_S,
            skip_await=None if chart.awaited else True,
            opts=pulumi.ResourceOptions.merge(
                self._child, pulumi.ResourceOptions(depends_on=[*quotas, *depends_on])
            ),
        )

    def _create_namespace(self, name: str, object_name: str) -> pulumi.Output[str]:
        """Creates the engine's namespace. Returns its name."""
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=object_name,
                # HAMi's device plugin is privileged and uses host paths.
                labels={"pod-security.kubernetes.io/enforce": "privileged"},
            ),
            opts=self._child,
        )
        namespace_name: pulumi.Output[str] = namespace.metadata.name
        return namespace_name
