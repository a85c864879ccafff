"""What on a pool's GPU model has more memory."""

from __future__ import annotations

from infra.plan.model.pools import PoolPlan


def larger(pool: PoolPlan, mib: float) -> str:
    """The smallest partition with so much memory, or what else has it."""
    fitting = [
        profile
        for profile in pool.gpu.profiles.values()
        if profile.memory_mib is not None and profile.memory_mib >= mib
    ]
    least = min(fitting, key=lambda one: (one.memory_mib or 0, one.name), default=None)
    if least is not None:
        return f"a pool with partitions of {least.name} or more"
    if pool.gpu.memory_mib >= mib:
        return "a pool with whole GPUs"
    return "GPUs with more memory, or several by tensor_parallel"
