"""The node agents: one account and policy for all, one desired-state file and DaemonSet per pool.

The agent keeps running while mig-manager changes a layout: its DaemonSet does not have the
nodeSelector `nvidia.com/gpu.deploy.client`. The GPU Operator (26.7 and newer) removes NVML clients
with that selector for the time of the change. The agent opens NVML only for a probe, and does not
probe while the state is pending or rebooting, so it does not interfere, and the node's state stays
visible. On charts up to 26.3.3 the selector would match no node at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_kubernetes as k8s

from slicewright.apis import names, rights
from slicewright.apis.admission import policies
from slicewright.infra import delivery
from slicewright.infra.components import code_map, pods
from slicewright.infra.components.fleet import admission, rbac
from slicewright.infra.components.fleet.node_agent_pod import AgentPod, node_labels
from slicewright.infra.plan import PoolPlan
from slicewright.infra.stack_file import GpuOperator, NodeAgent


class NodeAgents(pulumi.ComponentResource):
    """Outputs: `daemon_sets` by pool, `guards`, which limit an agent to its own report, and `code`,
    the name of the ConfigMap with the agent.
    """

    daemon_sets: Mapping[str, pulumi.Resource]
    guards: Sequence[pulumi.Resource]
    code: pulumi.Output[str]

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
        depends_on: Sequence[pulumi.Input[pulumi.Resource]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """depends_on: the CRDs of the custom resources that the agents write."""
        super().__init__("slicewright:index:NodeAgents", name, {}, opts)
        self._name, self._namespace = name, namespace
        self._child = pulumi.ResourceOptions(parent=self, deleted_with=cluster)
        rights = self._grant_rights()
        self.guards = admission.enforce_policy(
            f"{name}-policy", policies.report_policy(), self._child_after(depends_on)
        )
        zipapp = delivery.node_agent()
        code = code_map.deliver_code(
            name, zipapp, title="node-agent", namespace=namespace, opts=self._child
        )
        self.code = code.config_map
        pod = AgentPod(
            image=image,
            settings=settings,
            operator=operator,
            zipapp=zipapp,
            code=code.config_map,
        )
        options = self._child_after([*rights, *self.guards, *depends_on])
        self.daemon_sets = {pool.name: self._daemon_set(pool, pod, options) for pool in pools}
        self.register_outputs({"untouched": code.untouched})

    def _child_after(
        self, depends_on: Sequence[pulumi.Input[pulumi.Resource]]
    ) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions.merge(
            self._child, pulumi.ResourceOptions(depends_on=list(depends_on))
        )

    def _grant_rights(self) -> list[pulumi.Resource]:
        program = rbac.ProgramRights(
            component=self._name,
            object_name="slicewright-node-agent",
            service_account=names.AGENT_SERVICE_ACCOUNT,
            namespace=self._namespace,
            opts=self._child,
        )
        return [program.create_account(), program.bind_cluster_role(rights.AGENT_RULES)]

    def _daemon_set(
        self, pool: PoolPlan, pod: AgentPod, options: pulumi.ResourceOptions
    ) -> pulumi.Resource:
        nodes = node_labels(pool)
        labels = {"app.kubernetes.io/name": "node-agent", **pods.PART_OF, **nodes}
        # While the cloud replaces nodes for another boot layout, the old DaemonSet stays: its
        # agents verify the nodes that still have the old layout.
        suffix = "-".join(nodes.values())
        daemon_set: pulumi.Resource = k8s.apps.v1.DaemonSet(
            f"{self._name}-{suffix}",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=f"node-agent-{suffix}",
                namespace=self._namespace,
                labels=labels,
                # `up` waits for the pool. It would wait 10 minutes for a DaemonSet with one dead
                # node, and report less.
                annotations={"pulumi.com/skipAwait": "true"},
            ),
            spec=k8s.apps.v1.DaemonSetSpecArgs(
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels),
                update_strategy=k8s.apps.v1.DaemonSetUpdateStrategyArgs(
                    type="RollingUpdate",
                    rolling_update=k8s.apps.v1.RollingUpdateDaemonSetArgs(max_unavailable="25%"),
                ),
                template=pod.template(pool, labels, self._desired_state(pool)),
            ),
            opts=options,
        )
        return daemon_set

    def _desired_state(self, pool: PoolPlan) -> pulumi.Output[str]:
        """Creates the ConfigMap with the pool's desired state. Returns its name."""
        object_name = f"desired-{pool.name}-{pool.offer.layout_hash[:8]}"
        config_map = k8s.core.v1.ConfigMap(
            f"{self._name}-{object_name}",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=object_name, namespace=self._namespace),
            immutable=True,
            data={"desired.json": pool.offer.desired},
            opts=self._child,
        )
        name: pulumi.Output[str] = config_map.metadata.name
        return name
