"""Checks that the pods which may share one GPU or partition fit into its memory together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, listed, refuse, rule
from slicewright.infra.plan.workloads.placement import PlacedWorkload

_PLUGIN = "NVIDIA/k8s-device-plugin, README, shared access to GPUs: no memory isolation"


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """A workload on a resource that pods may share."""

    placed: PlacedWorkload
    replicas: int
    """The greatest number of replicas."""

    @property
    def resource(self) -> str:
        return self.placed.devices.resource

    @property
    def key(self) -> str:
        """The key that states the memory of a replica."""
        vllm = isinstance(self.placed.workload, stack_file.VllmWorkload)
        return "gpu_memory_percent" if vllm else "gpu_memory"

    @property
    def each_mib(self) -> int | None:
        """Memory of a device that one replica takes. None: unknown."""
        if self.placed.devices.mib is None:
            return None
        if isinstance(self.placed.workload, stack_file.VllmWorkload):
            return self.placed.devices.mib * self.placed.workload.gpu_memory_percent // 100
        return (
            None
            if self.placed.workload.gpu_memory is None
            else stack_file.mebibytes(self.placed.workload.gpu_memory)
        )

    @property
    def together(self) -> int:
        """Its replicas that may be on one device."""
        return min(self.replicas, self.placed.devices.sharers)


def check_shared_memory(tenants: Sequence[Tenant], stated: Stated) -> Checked[None]:
    """Scheduler and device plugin may put any pods that ask for a resource on one device of it."""
    on: dict[tuple[str, str], list[Tenant]] = defaultdict(list)
    for tenant in tenants:
        keys = (tenant.key, "replicas", "autoscaling")
        if tenant.each_mib is not None and stated.has(
            *((*tenant.placed.path, key) for key in keys)
        ):
            on[tenant.placed.resource].append(tenant)
    for on_resource in on.values():
        alone = False
        for tenant in on_resource:
            alone = (yield from _check_alone(tenant)) or alone
        if not alone:
            yield from _check_together(on_resource)


@rule("shared-memory")
def _check_alone(tenant: Tenant) -> Checked[bool]:
    """Whether it was refused."""
    each, mib, together = tenant.each_mib or 0, tenant.placed.devices.mib or 0, tenant.together
    if each > mib or each * together <= mib:
        return False
    if isinstance(tenant.placed.workload, stack_file.VllmWorkload):
        percent = tenant.placed.workload.gpu_memory_percent
        yield refuse(
            (*tenant.placed.path, tenant.key),
            f"{together} replicas may share one {tenant.resource}, and {percent} % each is "
            f"{percent * together} % of its memory: vLLM takes its part at the start",
            f"write {100 // together} or less, or choose a resource that is not shared",
            "vLLM docs, engine arguments",
        )
    else:
        yield refuse(
            (*tenant.placed.path, tenant.key),
            f"{together} replicas may share one {tenant.resource}, and together they take "
            f"{each * together} MiB of {mib}",
            f"write {mib // together}Mi or less, or choose a resource that is not shared",
            tenant.placed.pool.gpu.source,
        )
    return True


@rule("shared-memory-together")
def _check_together(tenants: Sequence[Tenant]) -> Checked[None]:
    """Adds up the largest replicas of all workloads, as many as may be on one device. Refuses the
    workload that exceeds the device's memory.
    """
    for i, tenant in enumerate(tenants):
        mib, sharers = tenant.placed.devices.mib or 0, tenant.placed.devices.sharers
        worst = sorted(
            ((other.each_mib or 0, other.placed.workload.name) for other in tenants[: i + 1]
             for _ in range(other.together)),
            reverse=True,
        )[:sharers]  # fmt: skip
        used_mib = sum(each for each, _ in worst)
        if used_mib <= mib:
            continue
        counts = {name: [n for _, n in worst].count(name) for _, name in worst}
        who = listed([f"{count} of {name}" for name, count in counts.items()])
        yield refuse(
            (*tenant.placed.path, tenant.key),
            f"{len(worst)} pods may share one {tenant.resource}, {who}, and together they "
            f"take {used_mib} MiB of {mib}",
            "write less, have fewer replicas, or choose another resource",
            _PLUGIN,
        )
        return
