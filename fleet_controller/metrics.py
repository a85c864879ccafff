"""The controller's metrics, in Prometheus text format."""

from __future__ import annotations

from collections.abc import Sequence

from fleet_controller.loop import Progress
from fleet_controller.state import Pool
from telemetry.prometheus import Family, Sample, labels, lines


def text(progress: Progress, pools: Sequence[Pool], *, leads: bool) -> str:
    """leads: whether this process acts. Of the pools only the one that does speaks, so that a sum
    over all counts each node once.
    """
    families = _families(progress, pools if leads else (), leads)
    return "".join(f"{line}\n" for family in families for line in lines(family))


def _families(progress: Progress, pools: Sequence[Pool], leads: bool) -> tuple[Family, ...]:
    pools = sorted(pools, key=lambda pool: pool.name)
    return (
        Family(
            "slicewright_controller_leads",
            "gauge",
            "1 if this replica acts, 0 if it stands by.",
            (Sample("", float(leads)),),
        ),
        Family(
            "slicewright_pool_nodes",
            "gauge",
            "Nodes of a pool by state.",
            tuple(
                Sample(
                    labels(pool=pool.name, state=state), pool.status.get("nodes", {}).get(state, 0)
                )
                for pool in pools
                for state in ("verified", "failing", "unknown", "changing", "failed")
            ),
        ),
        Family(
            "slicewright_pool_condition",
            "gauge",
            "1 if the condition of a pool is True, else 0.",
            tuple(
                Sample(
                    labels(pool=pool.name, condition=each["type"]), float(each["status"] == "True")
                )
                for pool in pools
                for each in pool.status.get("conditions", ())
            ),
        ),
        Family(
            "slicewright_controller_actions_total",
            "counter",
            "Actions of the controller, by kind and result.",
            tuple(
                Sample(labels(action=action, result=result), count)
                for (action, result), count in sorted(progress.done.items())
            ),
        ),
        Family(
            "slicewright_controller_passes_total",
            "counter",
            "Passes of the control loop.",
            (Sample("", progress.passes),),
        ),
        Family(
            "slicewright_controller_pass_seconds_total",
            "counter",
            "Time spent in passes of the control loop.",
            (Sample("", progress.pass_s),),
        ),
    )
