"""Checks that the pods which may share one GPU or partition fit into its memory together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from infra import spec
from infra.plan.findings import Checked, Stated, listed, refuse
from infra.plan.model.deployments import Devices
from infra.plan.model.pools import PoolPlan

_PLUGIN = "NVIDIA/k8s-device-plugin, README, shared access to GPUs: no memory isolation"


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A workload on a resource that pods may share."""

    path: spec.Path
    asked: spec.ServedWorkload
    pool: PoolPlan
    devices: Devices
    replicas: int
    """The greatest number of replicas."""

    @property
    def key(self) -> str:
        """The key that states the memory of a replica."""
        vllm = isinstance(self.asked, spec.VllmWorkload)
        return "gpu_memory_percent" if vllm else "gpu_memory"

    @property
    def each_mib(self) -> int | None:
        """Memory of a device that one replica takes. None: unknown."""
        if self.devices.mib is None:
            return None
        if isinstance(self.asked, spec.VllmWorkload):
            return self.devices.mib * self.asked.gpu_memory_percent // 100
        return None if self.asked.gpu_memory is None else spec.mebibytes(self.asked.gpu_memory)

    @property
    def together(self) -> int:
        """Its replicas that may be on one device."""
        return min(self.replicas, self.devices.sharers)


def check_shared_memory(tenants: Sequence[Tenant], stated: Stated) -> Checked[None]:
    """Scheduler and device plugin may put any pods that ask for a resource on one device of it."""
    on: dict[tuple[str, str], list[Tenant]] = defaultdict(list)
    for one in tenants:
        keys = (one.key, "replicas", "autoscaling")
        if one.each_mib is not None and stated.has(*((*one.path, key) for key in keys)):
            on[one.pool.name, one.devices.resource].append(one)
    for of_one in on.values():
        alone = False
        for one in of_one:
            alone = (yield from _check_alone(one)) or alone
        if not alone:
            yield from _check_together(of_one)


def _check_alone(one: Tenant) -> Checked[bool]:
    """Whether it was refused."""
    each, mib, together = one.each_mib or 0, one.devices.mib or 0, one.together
    if each > mib or each * together <= mib:
        return False
    if isinstance(one.asked, spec.VllmWorkload):
        percent = one.asked.gpu_memory_percent
        yield refuse(
            (*one.path, one.key),
            f"{together} replicas may share one {one.devices.resource}, and {percent} % each is "
            f"{percent * together} % of its memory: vLLM takes its part at the start",
            f"write {100 // together} or less, or choose a resource that is not shared",
            "vLLM docs, engine arguments",
        )
    else:
        yield refuse(
            (*one.path, one.key),
            f"{together} replicas may share one {one.devices.resource}, and together they take "
            f"{each * together} MiB of {mib}",
            f"write {mib // together}Mi or less, or choose a resource that is not shared",
            one.pool.gpu.source,
        )
    return True


def _check_together(tenants: Sequence[Tenant]) -> Checked[None]:
    """Adds up the largest replicas of all workloads, as many as may be on one device. Refuses the
    workload that exceeds the device's memory.
    """
    for i, one in enumerate(tenants):
        mib, sharers = one.devices.mib or 0, one.devices.sharers
        worst = sorted(
            ((other.each_mib or 0, other.asked.name) for other in tenants[: i + 1]
             for _ in range(other.together)),
            reverse=True,
        )[:sharers]  # fmt: skip
        taken = sum(each for each, _ in worst)
        if taken <= mib:
            continue
        counts = {name: [n for _, n in worst].count(name) for _, name in worst}
        who = listed([f"{count} of {name}" for name, count in counts.items()])
        yield refuse(
            (*one.path, one.key),
            f"{len(worst)} pods may share one {one.devices.resource}, {who}, and together they "
            f"take {taken} MiB of {mib}",
            "write less, have fewer replicas, or choose another resource",
            _PLUGIN,
        )
        return
