"""`GPUPool`, the custom resource that `up` waits for, and the check that fails an unverified `up`.

Waiting alone is not enough: the provider waits for `Settled` only if it creates or updates a pool,
and a refresh forgets a wait that failed (pulumi/pulumi #17949). So after the wait every pool is
read once more, live, and checked here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi

from apis import names
from infra import spec, values
from infra.plan import ExistingSettings, PoolPlan

_ANNOTATIONS = {
    # Until all nodes are verified, or one is wrong in a way that does not pass by itself.
    "pulumi.com/waitFor": f"condition={names.SETTLED}",
    # Nothing depends on a pool. A foreground delete would wait until the garbage collector has
    # discovered the kind (10 s and more).
    "pulumi.com/deletionPropagationPolicy": "background",
}
_DELETED_NODE = (
    "see why no node joins (docs/reference/controller-reasons.md). A Node that was deleted with "
    "kubectl comes back only when its instance is replaced: delete that in the cloud"
)
_MAX_SHOWN = 5
"""Nodes named per pool. The object lists more."""


class Unverified(pulumi.RunError):
    """A pool's nodes are not verified. Pulumi prints a RunError's message without a traceback."""


class LayoutForgotten(pulumi.RunError):
    """Nodes have a layout that mig-manager would no longer know."""


class GPUPool(pulumi.CustomResource):
    """A class of its own, because Pulumi's generic CustomResource has no `status`."""

    metadata: pulumi.Output[Mapping[str, Any]] = pulumi.property("metadata")
    spec: pulumi.Output[Mapping[str, Any] | None] = pulumi.property("spec")
    status: pulumi.Output[Mapping[str, Any] | None] = pulumi.property("status")

    def __init__(
        self,
        name: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        spec: Mapping[str, Any] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        properties = {
            "apiVersion": names.API_VERSION,
            "kind": names.POOL_KIND,
            "metadata": metadata,
            "spec": spec,
            "status": None,
        }
        super().__init__(
            f"kubernetes:{names.API_VERSION}:{names.POOL_KIND}", name, properties, opts
        )


class GpuPools(pulumi.ComponentResource):
    """Outputs: `pools` by name, and `verified`: true, or `up` fails. If it is not true, a preview
    warns and has false.
    """

    pools: Mapping[str, GPUPool]
    verified: pulumi.Output[bool]

    def __init__(
        self,
        name: str,
        *,
        pools: Sequence[PoolPlan],
        timeout_minutes: int,
        cluster: pulumi.Resource | None,
        after: Mapping[str, Sequence[pulumi.Input[pulumi.Resource]]],
        machines: Mapping[str, pulumi.Resource] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """after: by pool, resources that verification needs: nodes, agents, controller,
        partitioner. machines: by pool, the node pool in the cloud. A pool of existing nodes has
        none.
        """
        super().__init__("slicewright:index:GpuPools", name, {}, opts)
        timeout = f"{timeout_minutes}m"
        self.pools = {
            pool.name: GPUPool(
                f"{name}-{pool.name}",
                metadata=_metadata(pool),
                spec=_spec(pool),
                opts=pulumi.ResourceOptions(
                    parent=self,
                    deleted_with=cluster,
                    depends_on=list(after[pool.name]),
                    custom_timeouts=pulumi.CustomTimeouts(
                        create=timeout, update=timeout, delete=timeout
                    ),
                ),
            )
            for pool in pools
        }
        statuses = {
            pool_name: GPUPool(
                f"{name}-{pool_name}-proof",
                # Reads the live object at every run: the state may be out of date. After all pools:
                # one pool's change may restart the device plugin on the nodes of all.
                opts=pulumi.ResourceOptions(
                    parent=self, id=pool.id, depends_on=list(self.pools.values())
                ),
            )
            for pool_name, pool in self.pools.items()
        }
        known = {pool_name: _live(read) for pool_name, read in statuses.items()}
        if pulumi.runtime.is_dry_run():
            for planned in pools:
                new: pulumi.Output[bool] = pulumi.Output.from_input(
                    asyncio.ensure_future(_is_new((machines or {}).get(planned.name)))
                )
                pulumi.Output.all(known[planned.name], new).apply(partial(_foretell, planned))
        judge = partial(_judge, {pool.name: pool for pool in pools})
        self.verified = pulumi.Output.all(**known).apply(judge)
        # Registered, so that Pulumi waits for the result.
        self.register_outputs({"verified": self.verified})

    def proven(self, pool: GPUPool) -> pulumi.Output[pulumi.Resource]:
        """The pool, once all are verified. Otherwise `up` fails before it makes its dependants."""

        def known(_: bool) -> pulumi.Resource:
            return pool

        return self.verified.apply(known)


def unverified(pool: str, status: Mapping[str, Any] | None, generation: int) -> str | None:
    """Why the pool is not verified: a sentence and a line per node. None if it is verified.

    generation: of the pool's spec.
    """
    condition = next(
        (c for c in (status or {}).get("conditions") or () if c.get("type") == names.VERIFIED), None
    )
    if condition is None:
        return f"pool {pool}: the fleet controller has not written its status yet"
    if (
        condition.get("status") == "True"
        and int(condition.get("observedGeneration", 0)) >= generation
    ):
        return None
    if condition.get("status") == "True":
        return f"pool {pool}: verified for an earlier layout only, not yet for the new one"
    failing = (status or {}).get("failingNodes") or ()
    message = "" if failing else str(condition.get("message") or "").rstrip(".")
    lines = [
        f"pool {pool}: not verified ({condition.get('reason')}){': ' + message if message else ''}"
    ]
    if condition.get("reason") == "TooFewNodes":
        lines.append(f"  {_DELETED_NODE}")
    lines += [
        f"  node {node.get('name')}: {node.get('reason')}: {node.get('message')}"
        for node in failing[:_MAX_SHOWN]
    ]
    if len(failing) > _MAX_SHOWN:
        lines.append(f"  and {len(failing) - _MAX_SHOWN} more: kubectl get gpupool {pool} -o yaml")
    # Nodes wrote some of it.
    return "\n".join(map(spec.plain, lines))


@dataclass(frozen=True, kw_only=True)
class Live:
    """A pool's object, as the cluster has it.

    It is not a mapping, because `Output.all` would make an output for every value in it: with 50
    pools that took a third of the program's processor time.
    """

    spec: Mapping[str, Any] | None
    status: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None


def _live(read: GPUPool) -> pulumi.Output[Live]:
    return read.spec.apply(
        lambda spec: read.status.apply(
            lambda status: read.metadata.apply(
                lambda metadata: Live(spec=spec, status=status, metadata=metadata)
            )
        )
    )


async def _is_new(machines: pulumi.Resource | None) -> bool:
    """Whether a preview makes the node pool: the engine knows the ID of an existing one."""
    return isinstance(machines, pulumi.CustomResource) and not await machines.id.is_known()


def _foretell(pool: PoolPlan, live: Sequence[Any]) -> None:
    there, replaced = live
    for warning in values.rollout_warnings(pool, there.spec, there.status, replaced=replaced):
        pulumi.log.warn(spec.plain(warning))


def _judge(pools: Mapping[str, PoolPlan], known: Mapping[str, Live]) -> bool:
    if pulumi.runtime.is_dry_run():
        _keeps_layouts(pools, known)
    findings = {}
    for pool, live in sorted(known.items()):
        generation = int((live.metadata or {}).get("generation") or 0)
        if why := unverified(pool, live.status, generation):
            findings[pool] = why
    if not findings:
        return True
    text = "\n".join(findings.values())
    if pulumi.runtime.is_dry_run():
        kept = [name for name in findings if _is_kept(pools[name], known[name])]
        pulumi.log.warn(f"{text}\n{what_up_does(kept, [n for n in findings if n not in kept])}")
        return False
    raise Unverified(
        f"{text}\nNothing was rolled back. Once `kubectl wait gpupools --all "
        "--for=condition=Verified` succeeds, run `pulumi up` again."
    )


def _keeps_layouts(pools: Mapping[str, PoolPlan], known: Mapping[str, Live]) -> None:
    """Fails the preview, and so `up` before it changes anything.

    Not only a warning, as the old layout is gone from mig-manager's config when the pool is read
    in an `up`.
    """
    layouts = values.mig_parted_config(list(pools.values()))["mig-configs"]
    lost = [
        text
        for name, live in sorted(known.items())
        if (text := values.forgotten_layouts(pools[name], layouts, live.spec, live.status))
    ]
    if lost:
        raise LayoutForgotten("\n".join(spec.plain(line) for line in "\n".join(lost).split("\n")))


def _is_kept(pool: PoolPlan, live: Live) -> bool:
    """Whether `up` leaves the pool's object as it is, and so does not wait for it."""
    return _has(live.metadata, _metadata(pool)) and _has(live.spec, _spec(pool))


def _has(live: Any, wanted: Any) -> bool:
    """Whether `live` has all that `wanted` says. The API server adds defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(_has(live.get(k), v) for k, v in wanted.items())
    return bool(live == wanted)


def what_up_does(kept: Sequence[str], changed: Sequence[str]) -> str:
    """A message on pools that are not verified now. kept: pools that `up` does not change."""
    said = []
    if changed:
        said.append(f"`pulumi up` changes pool {', '.join(changed)} and waits for it.")
    if kept:
        said.append(
            f"`pulumi up` changes nothing of pool {', '.join(kept)}, so it does not wait for it "
            "and fails. Wait first: `kubectl wait gpupools --all --for=condition=Verified "
            "--timeout=1h`."
        )
    return " ".join(said)


def _metadata(pool: PoolPlan) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": pool.name, "annotations": dict(_ANNOTATIONS)}
    if isinstance(pool.settings, ExistingSettings):
        # Here and not by the controller, so that the nodes of every pool are released.
        metadata["finalizers"] = [names.RELEASE_FINALIZER]
    return metadata


def _spec(pool: PoolPlan) -> dict[str, Any]:
    """The spec has the layout's hash, so that `up` waits after every change of a layout."""
    select = (
        pool.settings.select
        if isinstance(pool.settings, ExistingSettings)
        else {names.POOL_LABEL: pool.name}
    )
    spec: dict[str, Any] = {
        "selector": {"matchLabels": dict(select)},
        "layoutHash": pool.offer.layout_hash,
        "expectedNodes": {"min": pool.nodes.min, "max": pool.nodes.max},
    }
    if pool.offer.mig_config is not None:
        spec["migConfig"] = pool.offer.mig_config
        spec["desiredState"] = pool.offer.desired
    if pool.driver_version is not None:
        spec["driverVersion"] = pool.driver_version
    if pool.offer.mig_config or pool.driver_version or values.judged_by_policy(pool):
        spec["rolloutPolicy"] = values.rollout_policy(pool)
    if isinstance(pool.settings, ExistingSettings):
        # No node pool labels these nodes, so the fleet controller does.
        spec["existingNodes"] = {
            "labels": dict(pool.labels),
            "migLayoutOnRelease": {"keep": "Keep", "disable": "Disable"}[
                pool.settings.on_destroy.mig_layout
            ],
        }
    return spec
