"""The check that fails an `up` whose pools are not verified, and its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from slicewright.apis import names
from slicewright.infra import manifests, stack_file
from slicewright.infra.components.fleet.gpu_pool_object import pool_metadata, pool_spec
from slicewright.infra.plan import PoolPlan

_DELETED_NODE = (
    "see why no node joins (docs/reference/controller-reasons.md). A Node that was deleted with "
    "kubectl comes back only when its instance is replaced: delete the instance in the cloud"
)
_MAX_LISTED = 5
"""The number of nodes that a message lists per pool. The object lists more."""


class Unverified(pulumi.RunError):
    """A pool's nodes are not verified. Pulumi prints a RunError's message without a traceback."""


class LayoutForgotten(pulumi.RunError):
    """Nodes have a layout that mig-manager would no longer know."""


@dataclass(frozen=True, kw_only=True)
class Live:
    """A pool's object, as the cluster has it.

    It is not a mapping, because `Output.all` would make an output for every value in it: with 50
    pools that took a third of the program's processor time.
    """

    spec: Mapping[str, Any] | None
    status: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None

    @property
    def generation(self) -> int:
        """The generation of the spec; 0 if the object does not exist yet."""
        return int((self.metadata or {}).get("generation") or 0)


def check_verified(pools: Mapping[str, PoolPlan], live: Mapping[str, Live]) -> bool:
    """Returns true if all pools are verified. If not, a preview warns and returns false.

    Raises Unverified in an `up`, and LayoutForgotten in a preview.
    """
    preview = pulumi.runtime.is_dry_run()
    if preview:
        _check_layouts(pools, live)
    findings = {
        name: finding
        for name, pool in sorted(live.items())
        if (finding := unverified(name, pool.status, pool.generation))
    }
    if not findings:
        return True
    text = "\n".join(findings.values())
    if preview:
        unchanged = [name for name in findings if _stays_unchanged(pools[name], live[name])]
        changed = [name for name in findings if name not in unchanged]
        pulumi.log.warn(f"{text}\n{next_up_message(unchanged, changed)}")
        return False
    raise Unverified(
        f"{text}\nNothing was rolled back. Once `kubectl wait gpupools --all "
        "--for=condition=Verified` succeeds, run `pulumi up` again."
    )


def unverified(pool: str, status: Mapping[str, Any] | None, generation: int) -> str | None:
    """The reason why the pool is not verified: a sentence and a line per node. None if it is.

    generation: the generation of the pool's spec.
    """
    conditions = (status or {}).get("conditions") or ()
    condition = next((c for c in conditions if c.get("type") == names.VERIFIED), None)
    if condition is None:
        return f"pool {pool}: the fleet controller has not written its status yet"
    if condition.get("status") == "True":
        if int(condition.get("observedGeneration", 0)) >= generation:
            return None
        return f"pool {pool}: verified for an earlier layout only, not yet for the new one"
    lines = _failure_lines(pool, condition, (status or {}).get("failingNodes") or ())
    # Some of the text comes from nodes.
    return "\n".join(map(stack_file.plain, lines))


def _failure_lines(
    pool: str, condition: Mapping[str, Any], failing: Sequence[Mapping[str, Any]]
) -> list[str]:
    message = "" if failing else str(condition.get("message") or "").rstrip(".")
    lines = [
        f"pool {pool}: not verified ({condition.get('reason')}){': ' + message if message else ''}"
    ]
    if condition.get("reason") == "TooFewNodes":
        lines.append(f"  {_DELETED_NODE}")
    lines += [
        f"  node {node.get('name')}: {node.get('reason')}: {node.get('message')}"
        for node in failing[:_MAX_LISTED]
    ]
    if len(failing) > _MAX_LISTED:
        lines.append(f"  and {len(failing) - _MAX_LISTED} more: kubectl get gpupool {pool} -o yaml")
    return lines


def _check_layouts(pools: Mapping[str, PoolPlan], live: Mapping[str, Live]) -> None:
    """Raises LayoutForgotten if nodes have a layout that the new config lacks.

    The failed preview stops `up` before it changes anything. A warning would not be enough: when an
    `up` reads the pool, the old layout is already gone from mig-manager's config.
    """
    layouts = manifests.mig_parted_config(list(pools.values()))["mig-configs"]
    problems = [
        text
        for name, pool in sorted(live.items())
        if (text := manifests.forgotten_layouts(pools[name], layouts, pool.spec, pool.status))
    ]
    if problems:
        lines = "\n".join(problems).split("\n")
        raise LayoutForgotten("\n".join(map(stack_file.plain, lines)))


def _stays_unchanged(pool: PoolPlan, live: Live) -> bool:
    """True if `up` leaves the pool's object as it is, and so does not wait for it."""
    return _contains(live.metadata, pool_metadata(pool)) and _contains(live.spec, pool_spec(pool))


def _contains(live: Any, declared: Any) -> bool:
    """True if `live` has every value of `declared`. The API server adds defaults."""
    if isinstance(declared, Mapping):
        return isinstance(live, Mapping) and all(
            _contains(live.get(key), value) for key, value in declared.items()
        )
    return bool(live == declared)


def next_up_message(unchanged: Sequence[str], changed: Sequence[str]) -> str:
    """Announces the changes of the next `pulumi up` to pools that are not verified.

    unchanged: pools that `up` does not change.
    """
    sentences = []
    if changed:
        sentences.append(f"`pulumi up` changes pool {', '.join(changed)} and waits for it.")
    if unchanged:
        sentences.append(
            f"`pulumi up` does not change pool {', '.join(unchanged)}, so it does not wait for it, "
            "and fails. Wait first: `kubectl wait gpupools --all --for=condition=Verified "
            "--timeout=1h`."
        )
    return " ".join(sentences)
