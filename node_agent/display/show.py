"""Text for a terminal: the GPUs of a machine with their partitions, and a verdict's checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from slicewright.apis.layout import LayoutError, ranges
from slicewright.apis.reasons.agent import MATCH, REASONS
from slicewright.node_agent.display import picture
from slicewright.node_agent.nvml import profiles
from slicewright.node_agent.nvml.observed import MigDevice, Observation, ObservedGpu, Vitals
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.usability_checks import describe_fabric, is_set_up
from slicewright.node_agent.xids.meanings import describe as describe_xid


def gpus(observation: Observation) -> str:
    """The driver, then the GPUs: mode, health, and a line per partition with its UUID."""
    if observation.failure:
        return (
            f"The driver did not answer: {observation.failure.text} ({observation.failure.call})."
        )
    cuda = f", CUDA {observation.cuda}" if observation.cuda else ""
    head = f"NVIDIA driver {observation.driver}{cuda}"
    return f"{head}\n\n{blocks(observation.gpus) or 'no GPU'}"


def blocks(gpus: Sequence[ObservedGpu]) -> str:
    """A block per GPU. GPUs with the same model, mode and layout share a block."""
    alike: dict[object, list[ObservedGpu]] = {}
    for gpu in gpus:
        alike.setdefault(_layout_key(gpu), []).append(gpu)
    return "\n\n".join("\n".join(_block(group)) for group in alike.values())


def verdict(judged: Verdict) -> str:
    """The message, then a table of every check."""
    rows = [("", "what", "wanted", "found", "")]
    marks = {"Match": "ok", "Mismatch": "NO", "Unknown": "?"}
    for check in judged.checks:
        reason = "" if check.reason == MATCH else check.reason
        rows.append(
            (
                marks[REASONS[check.reason].verdict],
                check.where,
                check.expected,
                check.observed,
                reason,
            )
        )
    return f"{judged.verdict}: {judged.message}\n\n{table(rows)}"


def device(gpu: ObservedGpu, mig_device: MigDevice) -> str:
    """A MIG device in a line."""
    name = profiles.name_of(mig_device, gpu) or "unknown"
    where = (
        f"GPU instance {mig_device.gpu_instance}, compute instance {mig_device.compute_instance}"
    )
    return (
        f"{mig_device.uuid}  {name} on GPU {gpu.index} ({gpu.model}), {where}, "
        f"{mig_device.multiprocessors} SMs, {mig_device.memory_mib} MiB"
    )


def layout(gpus: Sequence[ObservedGpu]) -> str:
    """The layout of these GPUs in the format of `apply`: by UUID, with known placements.

    GPUs without MIG are omitted. A change of MIG mode that waits for a reset counts as done.
    Raises LayoutError if a GPU's layout is not clear or no GPU supports MIG: an incomplete file
    would look complete.
    """
    problems = [f"show --layout: GPU {gpu.index}: {why}" for gpu in gpus if (why := _unclear(gpu))]
    clauses = [f"{gpu.uuid}:{_parts(gpu)}" for gpu in gpus if gpu.mig != "unsupported"]
    if problems or not clauses:
        raise LayoutError("\n".join(problems) or "show --layout: none of these GPUs supports MIG")
    return "\n".join(clauses)


def _unclear(gpu: ObservedGpu) -> str | None:
    if gpu.failure:
        return f"{gpu.failure.call}: {gpu.failure.text}"
    if gpu.mig == "unknown" or not gpu.uuid:
        return "the driver does not report its MIG mode or its UUID"
    if any(profiles.name_of(device, gpu) is None for device in gpu.devices):
        return "the profile of a partition is not clear"
    return None


def _parts(gpu: ObservedGpu) -> str:
    if (gpu.mig if gpu.mig_pending == "unknown" else gpu.mig_pending) == "disabled":
        return "off"
    starts = {i.id: i.start for i in gpu.gpu_instances or ()}
    parts = Counter(
        (
            d.gpu_instance,
            f"@{starts[d.gpu_instance]}" if d.gpu_instance in starts else "",
            profiles.name_of(d, gpu),
        )
        for d in sorted(
            gpu.devices,
            key=lambda d: (starts.get(d.gpu_instance, 0), d.gpu_instance, d.compute_instance),
        )
    )
    # Equal compute instances of a GPU instance are a single part: 1c.3g.20gb@0*3.
    return (
        ",".join(
            f"{name}{at}{f'*{count}' if count > 1 else ''}"
            for (_, at, name), count in parts.items()
        )
        or "empty"
    )


def _layout_key(gpu: ObservedGpu) -> object:
    """A key that is equal for GPUs that share a block. Unreadable GPUs have separate blocks."""
    if gpu.failure:
        return gpu.index
    starts = {i.id: (i.start, i.size) for i in gpu.gpu_instances or ()}
    devices = [
        (d.gpu_instance, d.compute_instance, starts.get(d.gpu_instance), profiles.name_of(d, gpu))
        for d in gpu.devices
    ]
    empty = starts.keys() - {d.gpu_instance for d in gpu.devices}
    without_devices = sorted((starts[instance], instance) for instance in empty)
    return (
        gpu.model,
        gpu.memory_mib,
        gpu.mig,
        gpu.mig_pending,
        tuple(sorted(devices, key=str)),
        tuple(without_devices),
    )


def _block(gpus: Sequence[ObservedGpu]) -> Iterator[str]:
    """GPUs with the same layout: the picture and the table's head once, the rest per GPU."""
    first = gpus[0]
    memory = f", {first.memory_mib} MiB" if first.memory_mib else ""
    mig = {
        "enabled": "MIG on",
        "disabled": "MIG off",
        "unsupported": "no MIG",
        "unknown": "MIG unknown",
    }[first.mig]
    if first.mig_pending != first.mig:
        mig += f" (after the next reset: {first.mig_pending})"
    head = f"GPU {ranges(gpu.index for gpu in gpus)}  {first.model or '?'}{memory}"
    if len(gpus) == 1:
        yield f"{head}  {first.uuid or '?'}  {mig}"
        yield from (f"  {line}" for line in _state(first))
    else:
        yield f"{head}  {mig}"
        for gpu in gpus:
            yield f"  GPU {gpu.index}  {gpu.uuid or '?'}"
            yield from (f"    {line}" for line in _state(gpu))
    yield from (f"  {line}" for line in picture.draw(first))
    if first.devices:
        yield table(list(_partition_rows(gpus)))
    elif first.mig == "enabled" and not first.failure:
        yield "  no partition"


def _state(gpu: ObservedGpu) -> Iterator[str]:
    if gpu.failure:
        yield f"{gpu.failure.call}: {gpu.failure.text}"
    if gpu.vitals:
        yield from _health(gpu.vitals)
    yield from _usability(gpu)
    if gpu.xids:
        yield from _xids(gpu)
    if gpu.processes:
        yield f"in use by process {', '.join(map(str, gpu.processes))}"


def _usability(gpu: ObservedGpu) -> Iterator[str]:
    if gpu.compute_mode not in (None, "default"):
        yield f"! compute mode {gpu.compute_mode}"
    if gpu.fabric and gpu.fabric.state != "not supported":
        mark = "" if is_set_up(gpu.fabric) else "! "
        yield f"{mark}NVLink fabric: {describe_fabric(gpu.fabric)}"


def _partition_rows(gpus: Sequence[ObservedGpu]) -> Iterator[tuple[str, ...]]:
    columns = ("  profile", "GI", "CI", "at", "SMs", "MiB", "used", "CUDA_VISIBLE_DEVICES")
    several = len(gpus) > 1
    yield ("  GPU", columns[0].strip(), *columns[1:]) if several else columns
    for gpu in gpus:
        starts = {i.id: f"{i.start}:{i.size}" for i in gpu.gpu_instances or ()}
        for d in sorted(gpu.devices, key=lambda d: (d.gpu_instance, d.compute_instance)):
            name = profiles.name_of(d, gpu) or "unknown"
            row = (
                str(d.gpu_instance),
                str(d.compute_instance),
                starts.get(d.gpu_instance, "?"),
                str(d.multiprocessors),
                str(d.memory_mib),
                "?" if d.memory_used_mib is None else str(d.memory_used_mib),
                d.uuid,
            )
            yield (f"  {gpu.index}", name, *row) if several else (f"  {name}", *row)


def _health(vitals: Vitals) -> Iterator[str]:
    """A line of measurements, and a line for each problem."""
    measured = [
        None if vitals.temperature_c is None else f"{vitals.temperature_c} °C",
        None if vitals.power_mw is None else f"{vitals.power_mw / 1000:.0f} W",
        None if vitals.sm_clock_mhz is None else f"{vitals.sm_clock_mhz} MHz",
        None if vitals.utilization_percent is None else f"{vitals.utilization_percent} % busy",
        None if not vitals.nvlinks_up else f"{vitals.nvlinks_up} NVLinks",
        None if vitals.ecc is None else f"ECC {'on' if vitals.ecc else 'off'}",
    ]
    if any(measured):
        yield ", ".join(filter(None, measured))
    problems = {
        "memory errors that ECC could not correct": vitals.ecc_uncorrected,
        "rows remapped after uncorrectable errors": vitals.remapped_uncorrectable,
        "pages retired after double-bit errors": vitals.retired_double,
        # A GPU without NVLink neighbours has all its links down.
        "NVLinks down": vitals.nvlinks_down if vitals.nvlinks_up else None,
    }
    yield from (f"! {count} {problem}" for problem, count in problems.items() if count)
    if vitals.remap_failed:
        yield "! a bad memory row could not be remapped: replace the GPU"
    if vitals.remap_pending or vitals.retired_pending:
        yield "! bad memory stays in use until the next reset"
    if vitals.slowdowns:
        yield f"! slowed down: {', '.join(vitals.slowdowns)}"
    if vitals.recovery_action not in (None, "none"):
        yield f"! the driver asks to {vitals.recovery_action}"


def _xids(gpu: ObservedGpu) -> Iterator[str]:
    """A line per Xid with its count and last time."""
    newest = {xid.number: xid for xid in gpu.xids}
    counts = dict(gpu.xid_counts)
    for number, xid in newest.items():
        mark = "! " if gpu.stands and gpu.stands.number == number else ""
        times = f", {counts[number]} times" if counts.get(number, 1) > 1 else ""
        yield (
            f"{mark}{describe_xid(number)}{times}, last {xid.at_s:.0f} s after "
            f"boot{f': {xid.text}' if xid.text else ''}"
        )


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """A table with left-aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
