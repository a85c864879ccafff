"""Metrics of a thorough probe: health per GPU, memory per partition, if reported."""

from __future__ import annotations

from collections.abc import Iterator

from slicewright.node_agent.nvml import profiles
from slicewright.node_agent.nvml.observed import MigDevice, Observation, ObservedGpu, Vitals
from slicewright.telemetry.prometheus import Family, Sample, labels

_MIB = 2**20
_GAUGES = (
    ("temperature_celsius", "temperature_c", 1.0, "Temperature of the GPU."),
    ("memory_temperature_celsius", "memory_temperature_c", 1.0, "Temperature of the GPU's memory."),
    ("power_watts", "power_mw", 0.001, "Power draw of the GPU."),
    ("power_limit_watts", "power_limit_mw", 0.001, "Power limit of the GPU."),
    ("sm_clock_hertz", "sm_clock_mhz", 1e6, "Clock of the multiprocessors."),
    (
        "utilization_ratio",
        "utilization_percent",
        0.01,
        "Fraction of time in which a kernel ran; not measured in MIG mode.",
    ),
    ("ecc_enabled", "ecc", 1.0, "1 if ECC is on."),
    (
        "row_remap_pending",
        "remap_pending",
        1.0,
        "1 if a bad memory row stays in use until a reset.",
    ),
    (
        "row_remap_failed",
        "remap_failed",
        1.0,
        "1 if a bad memory row has no spare row left: replace the GPU.",
    ),
    (
        "page_retirement_pending",
        "retired_pending",
        1.0,
        "1 if bad memory pages stay in use until a reset.",
    ),
)
# (metric, type, label, {label value: field}, help). The driver's totals restart when it is loaded.
_GROUPS = (
    ("ecc_errors_total", "counter", "kind",
     {"corrected": "ecc_corrected", "uncorrected": "ecc_uncorrected"},
     "Memory errors since the driver was loaded."),
    ("remapped_rows", "gauge", "cause",
     {"correctable": "remapped_correctable", "uncorrectable": "remapped_uncorrectable"},
     "Remapped memory rows (Ampere and later)."),
    ("retired_pages", "gauge", "cause",
     {"single-bit": "retired_single", "double-bit": "retired_double"},
     "Retired memory pages (before Ampere)."),
    ("nvlinks", "gauge", "state", {"up": "nvlinks_up", "down": "nvlinks_down"},
     "NVLinks; MIG mode turns them off."),
)  # fmt: skip


def families(observation: Observation) -> Iterator[Family]:
    """Metrics of a thorough probe."""
    if observation.driver:
        facts = labels(driver=observation.driver, cuda=observation.cuda or "")
        yield Family(
            "slicewright_driver_info",
            "gauge",
            "Always 1; the driver's version and its CUDA version.",
            (Sample(facts, 1),),
        )
    yield from _health([(gpu, gpu.vitals) for gpu in observation.gpus if gpu.vitals])
    yield from _usability(observation.gpus)
    yield from _partitions(observation.gpus)
    yield from _utilization(observation.gpus)


def xids(gpus: tuple[ObservedGpu, ...]) -> Family:
    """Xids of the GPUs of a thorough probe."""
    counted = tuple(
        Sample(_gpu(gpu, xid=str(xid)), count) for gpu in gpus for xid, count in gpu.xid_counts
    )
    text = "Xids in the kernel log since boot, or as far back as it goes."
    return Family("slicewright_gpu_xid_errors_total", "counter", text, counted)


def _health(gpus: list[tuple[ObservedGpu, Vitals]]) -> Iterator[Family]:
    for name, fact, unit, text in _GAUGES:
        samples = tuple(
            Sample(_gpu(gpu), round(getattr(vitals, fact) * unit, 6))
            for gpu, vitals in gpus
            if getattr(vitals, fact) is not None
        )
        yield Family(f"slicewright_gpu_{name}", "gauge", text, samples)
    for name, kind, label, facts, text in _GROUPS:
        grouped = tuple(
            Sample(_gpu(gpu, **{label: value}), getattr(vitals, fact))
            for gpu, vitals in gpus
            for value, fact in facts.items()
            if getattr(vitals, fact) is not None
        )
        yield Family(f"slicewright_gpu_{name}", kind, text, grouped)
    yield from _events(gpus)


def _events(gpus: list[tuple[ObservedGpu, Vitals]]) -> Iterator[Family]:
    replays = tuple(
        Sample(_gpu(gpu), v.pcie_replays) for gpu, v in gpus if v.pcie_replays is not None
    )
    yield Family("slicewright_gpu_pcie_replays_total", "counter", "PCIe replays.", replays)
    slow = tuple(
        Sample(_gpu(gpu, reason=reason), 1) for gpu, v in gpus for reason in v.slowdowns or ()
    )
    yield Family(
        "slicewright_gpu_slowdown", "gauge", "1 for every reason that keeps the clocks down.", slow
    )
    actions = tuple(
        Sample(_gpu(gpu, action=v.recovery_action), 1)
        for gpu, v in gpus
        if v.recovery_action not in (None, "none")
    )
    yield Family(
        "slicewright_gpu_recovery_action",
        "gauge",
        "1 for the recovery action that the driver requests after an error.",
        actions,
    )


def _usability(gpus: tuple[ObservedGpu, ...]) -> Iterator[Family]:
    modes = tuple(Sample(_gpu(gpu, mode=gpu.compute_mode), 1) for gpu in gpus if gpu.compute_mode)
    yield Family("slicewright_gpu_compute_mode", "gauge", "1 for the GPU's compute mode.", modes)
    states = tuple(Sample(_gpu(gpu, state=gpu.fabric.state), 1) for gpu in gpus if gpu.fabric)
    text = "1 for the state of the GPU's NVLink fabric (NVSwitch machines, Hopper and later)."
    yield Family("slicewright_gpu_fabric_state", "gauge", text, states)
    problems = tuple(
        Sample(_gpu(gpu, problem=problem), 1)
        for gpu in gpus
        if gpu.fabric
        for problem in (*gpu.fabric.faults, *gpu.fabric.notes)
    )
    text = "1 for every problem that the GPU's NVLink fabric reports."
    yield Family("slicewright_gpu_fabric_problem", "gauge", text, problems)


def _partitions(gpus: tuple[ObservedGpu, ...]) -> Iterator[Family]:
    total, used, busy = [], [], []
    for gpu in gpus:
        if gpu.processes is not None:
            busy.append(Sample(_gpu(gpu), len(gpu.processes)))
        for device in gpu.devices:
            where = _gpu(gpu, **_partition_labels(gpu, device))
            total.append(Sample(where, device.memory_mib * _MIB))
            if device.memory_used_mib is not None:
                used.append(Sample(where, device.memory_used_mib * _MIB))
    yield Family("slicewright_gpu_processes", "gauge", "Processes on the GPU.", tuple(busy))
    yield Family(
        "slicewright_partition_memory_bytes", "gauge", "Memory of a MIG device.", tuple(total)
    )
    yield Family(
        "slicewright_partition_memory_used_bytes",
        "gauge",
        "Memory of a MIG device in use.",
        tuple(used),
    )


def _utilization(gpus: tuple[ObservedGpu, ...]) -> Iterator[Family]:
    sources: list[Sample] = []
    whole: list[Sample] = []
    parts: list[Sample] = []
    for gpu in gpus:
        if gpu.utilization or gpu.utilization_failure:
            sources.append(Sample(_gpu(gpu), int(gpu.utilization_failure is None)))
        by_instance = {measured.gpu_instance: measured for measured in gpu.utilization}
        partitions = [
            (device.gpu_instance, _partition_labels(gpu, device), parts) for device in gpu.devices
        ]
        for instance, pairs, samples in [(None, {}, whole), *partitions]:
            measured = by_instance.get(instance)
            for engine in ("graphics", "sm", "dram") if measured else ():
                if (ratio := getattr(measured, engine)) is not None:
                    samples.append(Sample(_gpu(gpu, **pairs, engine=engine), ratio))
    text = "1 if utilization was measured, 0 if GPU or driver do not allow it."
    yield Family("slicewright_utilization_source_up", "gauge", text, tuple(sources))
    text = "Utilization of a whole GPU's engine in the last sample (Hopper and later, MIG off)."
    yield Family("slicewright_gpu_engine_utilization_ratio", "gauge", text, tuple(whole))
    text = "Utilization of a GPU instance's engine in the last sample (Hopper and later)."
    yield Family("slicewright_partition_utilization_ratio", "gauge", text, tuple(parts))


def _partition_labels(gpu: ObservedGpu, device: MigDevice) -> dict[str, str]:
    return {
        "gpu_instance": str(device.gpu_instance),
        "compute_instance": str(device.compute_instance),
        "profile": profiles.name_of(device, gpu) or "unknown",
        "uuid": device.uuid,
    }


def _gpu(gpu: ObservedGpu, **more: str | None) -> str:
    """Labels of a GPU. `uuid`, on GKE `minor`, join with `slicewright_partition_pod_info`."""
    minor = gpu.vitals.minor if gpu.vitals else None
    pairs = {
        "gpu": str(gpu.index),
        "minor": None if minor is None else str(minor),
        "uuid": gpu.uuid,
        **more,
    }
    return labels(**{name: value or "" for name, value in pairs.items()})
