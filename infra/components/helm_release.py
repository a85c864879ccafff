"""A Helm release as all components make them.

Neither the provider nor Helm says anything while a release waits for its objects. That takes up to
ten minutes if the pods of an operator find no node. So the program reports it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import pulumi
import pulumi_kubernetes as k8s

from infra.values import ChartAddress, JsonObject

_SAID_EVERY_S = 15.0
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
    if not pulumi.runtime.is_dry_run():
        tell = partial(_tell, release, timeout_s, opts.parent)
        task = asyncio.ensure_future(_watched(made, opts.depends_on, namespace, tell))
        _WATCHING.add(task)
        task.add_done_callback(_WATCHING.discard)
    return made


async def _watched(
    made: pulumi.Resource,
    after: Any,
    namespace: pulumi.Input[str],
    tell: Callable[[str, float], None],
) -> None:
    """after: resources that the engine makes before the release."""
    try:
        for one in after if isinstance(after, Sequence) else ():
            await one.urn.future()
        there = await pulumi.Output.from_input(namespace).future()
        await said_until(made.urn.future(), partial(tell, str(there)), _SAID_EVERY_S)
    except Exception:  # noqa: BLE001 - the engine has said it of the resource that failed
        return


async def said_until(made: Awaitable[Any], say: Callable[[float], None], every_s: float) -> None:
    """Calls `say` with the seconds that have passed, until `made` is there."""
    task, seconds = asyncio.ensure_future(made), 0.0
    while not (await asyncio.wait({task}, timeout=every_s))[0]:
        seconds += every_s
        say(seconds)


def _tell(
    release: str, timeout_s: int, parent: pulumi.Resource | None, namespace: str, seconds: float
) -> None:
    pulumi.log.info(
        f"Helm release {release} is not ready after {seconds:.0f} s, and has {timeout_s} s: "
        f"`kubectl --namespace {namespace} get pods,events` shows what it waits for",
        # The release itself has no URN before it is made.
        resource=parent,
        ephemeral=True,
    )
