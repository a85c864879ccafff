"""A Helm release as all components make them."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from infra.values import ChartAddress, JsonObject


def helm_release(
    name: str,
    *,
    release: str,
    namespace: pulumi.Input[str],
    address: ChartAddress,
    version: str,
    settings: JsonObject,
    timeout_s: int,
    opts: pulumi.ResourceOptions,
    skip_crds: bool | None = None,
) -> pulumi.Resource:
    """settings: the chart's values. timeout_s: Helm's own limit; Pulumi's custom timeouts have no
    effect on a Release.
    """
    chart, repository = address
    made: pulumi.Resource = k8s.helm.v3.Release(
        name,
        name=release,
        namespace=namespace,
        chart=chart,
        version=version,
        repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=repository) if repository else None,
        values=settings,
        skip_crds=skip_crds,
        atomic=False,
        cleanup_on_fail=True,
        timeout=timeout_s,
        opts=opts,
    )
    return made
