"""The MIG devices of a GPU, counted by profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slicewright.apis.desired_state import Desired
from slicewright.apis.layout import GpuLayout
from slicewright.node_agent.nvml import profiles
from slicewright.node_agent.nvml.observed import ObservedGpu


def observed_instances(gpu: ObservedGpu, desired: Desired) -> Mapping[str, int]:
    """Profile -> number of MIG devices on a GPU. Unclear profiles count as `unknown`."""
    names = (
        profiles.name_of(d, gpu, gpu_memory_mib=desired.gpu_memory_mib) or "unknown"
        for d in gpu.devices
    )
    return dict(sorted(Counter(names).items()))


def expected_devices(expected: GpuLayout, gpu: ObservedGpu) -> Mapping[str, int]:
    """MIG device profile -> count, with profile numbers replaced by the driver's names."""
    names = {str(p.id): profiles.name_of_profile(p, gpu.memory_mib) for p in gpu.offered}
    count: Counter[str] = Counter()
    for part in expected.parts:
        name = names.get(part.profile) or part.profile
        whole = part.compute_slices is None or name.startswith(f"{part.compute_slices}g.")
        count[name if whole else f"{part.compute_slices}c.{name}"] += part.count
    return count


def describe_instances(instances: Mapping[str, int]) -> str:
    """Describes instances: `1g.5gb x2, 3g.20gb x1`."""
    return (
        ", ".join(f"{profile} x{count}" for profile, count in sorted(instances.items()))
        or "no partition"
    )
