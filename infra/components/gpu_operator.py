"""The NVIDIA GPU Operator, pinned, with the layouts of every pool that mig-manager partitions."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from infra import values
from infra.plan import EksFleetPlan

_RELEASE_TIMEOUT_S = 600
"""Helm's own limit; Pulumi's custom timeouts have no effect on a Release."""


class GpuOperator(pulumi.ComponentResource):
    """Output: `release`, which is ready when the operator's Deployment is; nodes come later."""

    release: k8s.helm.v3.Release

    def __init__(
        self,
        name: str,
        plan: EksFleetPlan,
        *,
        cluster: pulumi.Resource,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """after: the nodes on which the operator's own pods run."""
        super().__init__("slicewright:index:GpuOperator", name, {}, opts)
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
        layouts = values.as_flow_yaml(values.mig_parted_config(plan.pools))
        config_name = f"mig-layouts-{values.short_hash(layouts)}"
        config = k8s.core.v1.ConfigMap(
            # The operator does not watch the content: only a new name restarts mig-manager, so this
            # is a new resource too.
            f"{name}-{config_name}",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=config_name, namespace=namespace.metadata.name
            ),
            immutable=True,
            data={values.MIG_CONFIG_KEY: layouts},
            opts=child,
        )
        after = [config, *after]
        plugin_config_name: str | None = None
        if shared := values.plugin_configs(plan.pools):
            texts = {pool: values.as_yaml(content) for pool, content in shared.items()}
            plugin_config_name = (
                f"plugin-configs-{values.short_hash(json.dumps(texts, sort_keys=True))}"
            )
            # The plugin does not watch the content either. One map for all pools, because the chart
            # takes only one.
            plugin_config = k8s.core.v1.ConfigMap(
                f"{name}-{plugin_config_name}",
                metadata=k8s.meta.v1.ObjectMetaArgs(
                    name=plugin_config_name, namespace=namespace.metadata.name
                ),
                immutable=True,
                data=texts,
                opts=child,
            )
            after = [plugin_config, *after]
        self.release = k8s.helm.v3.Release(
            name,
            name=plan.operator.release,
            namespace=namespace.metadata.name,
            chart="gpu-operator",
            version=plan.operator.chart_version,
            repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=plan.operator.repository),
            values=values.operator_values(
                plan, mig_config_map=config_name, plugin_config_map=plugin_config_name
            ),
            atomic=False,
            cleanup_on_fail=True,
            timeout=_RELEASE_TIMEOUT_S,
            opts=pulumi.ResourceOptions(parent=self, deleted_with=cluster, depends_on=list(after)),
        )
        self.register_outputs({})
