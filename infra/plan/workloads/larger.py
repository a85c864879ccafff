"""Partitions or GPUs with more memory, for a pool's GPU model."""

from __future__ import annotations

from slicewright.infra.plan.model.pools import PoolPlan


def larger(pool: PoolPlan, mib: float) -> str:
    """A text with the smallest partition that has so much memory, or with larger GPUs."""
    fitting = [
        profile
        for profile in pool.gpu.profiles.values()
        if profile.memory_mib is not None and profile.memory_mib >= mib
    ]
    least = min(fitting, key=lambda p: (p.memory_mib or 0, p.name), default=None)
    if least is not None:
        return f"a pool with partitions of {least.name} or more"
    if pool.gpu.memory_mib is not None and pool.gpu.memory_mib >= mib:
        return "a pool with whole GPUs"
    return "GPUs with more memory, or several by tensor_parallel"
