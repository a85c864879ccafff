"""Helm releases, with progress messages.

Neither the provider nor Helm reports anything while a release waits for its objects. If no node can
take the pods of an operator, that lasts up to ten minutes. So the program reports it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import pulumi
import pulumi_kubernetes as k8s

from slicewright.infra.manifests import ChartAddress, JsonObject

_PROGRESS_INTERVAL_S = 15.0
_WATCHING: Final[set[asyncio.Future[None]]] = set()
"""The event loop itself holds tasks only weakly."""


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
    skip_await: bool | None = None,
) -> pulumi.Resource:
    """settings: the chart's values. timeout_s: Helm's own limit, because Pulumi's custom timeouts
    have no effect on a Release. skip_await: do not wait for the chart's pods.
    """
    chart, repository = address
    created: pulumi.Resource = k8s.helm.v3.Release(
        name,
        name=release,
        namespace=namespace,
        chart=chart,
        version=version,
        repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=repository) if repository else None,
        values=settings,
        skip_crds=skip_crds,
        skip_await=skip_await,
        atomic=False,
        cleanup_on_fail=True,
        timeout=timeout_s,
        opts=opts,
    )
    if not pulumi.runtime.is_dry_run():
        report = partial(_report_waiting, release, timeout_s, opts.parent)
        task = asyncio.ensure_future(_watch(created, opts.depends_on, namespace, report))
        _WATCHING.add(task)
        task.add_done_callback(_WATCHING.discard)
    return created


async def _watch(
    release: pulumi.Resource,
    depends_on: Any,
    namespace: pulumi.Input[str],
    report: Callable[[str, float], None],
) -> None:
    """depends_on: resources that the engine creates before the release."""
    try:
        for dependency in depends_on if isinstance(depends_on, Sequence) else ():
            await dependency.urn.future()
        namespace_name = await pulumi.Output.from_input(namespace).future()
        await report_until_ready(
            release.urn.future(), partial(report, str(namespace_name)), _PROGRESS_INTERVAL_S
        )
    except Exception:  # noqa: BLE001 - the engine has already reported the resource that failed
        return


async def report_until_ready(
    release: Awaitable[Any], report: Callable[[float], None], interval_s: float
) -> None:
    """Calls `report` with the seconds that have passed, until `release` is done."""
    task, seconds = asyncio.ensure_future(release), 0.0
    while not (await asyncio.wait({task}, timeout=interval_s))[0]:
        seconds += interval_s
        report(seconds)


def _report_waiting(
    release: str, timeout_s: int, parent: pulumi.Resource | None, namespace: str, seconds: float
) -> None:
    pulumi.log.info(
        f"Helm release {release}: not ready after {seconds:.0f} s (timeout {timeout_s} s); to see "
        f"why, run `kubectl --namespace {namespace} get pods,events`",
        # The release has no URN before it is created.
        resource=parent,
        ephemeral=True,
    )
