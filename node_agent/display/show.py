"""Pictures for people: the GPUs of a node and how they are cut, and a verdict with its checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from node_agent.display import picture
from node_agent.layout import LayoutError
from node_agent.nvml import profiles
from node_agent.nvml.observed import MigDevice, Observation, ObservedGpu, Vitals
from node_agent.verdict.reasons import MATCH, REASONS
from node_agent.verdict.verify import Verdict
from node_agent.xids.meanings import shown


def gpus(observation: Observation) -> str:
    """One block per GPU: the model, MIG mode, and a line per partition with what addresses it."""
    if observation.failure:
        return (
            f"The driver did not answer: {observation.failure.text} ({observation.failure.call})."
        )
    blocks = [
        "NVIDIA driver "
        f"{observation.driver}{f', CUDA {observation.cuda}' if observation.cuda else ''}"
    ]
    blocks += ["\n".join(_gpu(gpu)) for gpu in observation.gpus]
    return "\n\n".join(blocks if observation.gpus else [*blocks, "no GPU"])


def verdict(judged: Verdict) -> str:
    """The sentence, then every check."""
    rows = [("", "what", "wanted", "found", "")]
    marks = {"Match": "ok", "Mismatch": "NO", "Unknown": "?"}
    for check in judged.checks:
        reason = "" if check.reason == MATCH else check.reason
        rows.append(
            (marks[REASONS[check.reason].verdict], check.where, check.wanted, check.found, reason)
        )
    return f"{judged.verdict}: {judged.message}\n\n{table(rows)}"


def device(gpu: ObservedGpu, found: MigDevice | None) -> str:
    """What one address stands for."""
    if found is None:
        return "\n".join(_gpu(gpu))
    name = profiles.name_of(found, gpu) or "unknown"
    place = f"GPU instance {found.gpu_instance}, compute instance {found.compute_instance}"
    return (
        f"{found.uuid}  {name} on GPU {gpu.index} ({gpu.model}), {place}, "
        f"{found.multiprocessors} SMs, {found.memory_mib} MiB"
    )


def layout(observation: Observation) -> str:
    """Every GPU that can be cut, in the words that `apply` takes: by UUID, with places where the
    driver tells them.

    A change of MIG mode that waits for a reset counts as done. Raises LayoutError where a GPU
    cannot be told, or none is there: a file that leaves it out would look whole.
    """
    problems = [
        f"show --layout: GPU {gpu.index}: {why}"
        for gpu in observation.gpus
        if (why := _untold(gpu))
    ]
    cut = [f"{gpu.uuid}:{_parts(gpu)}" for gpu in observation.gpus if gpu.mig != "unsupported"]
    if problems or not cut:
        raise LayoutError("\n".join(problems) or "show --layout: no GPU here can be cut")
    return "\n".join(cut)


def _untold(gpu: ObservedGpu) -> str | None:
    if gpu.failure:
        return f"{gpu.failure.call}: {gpu.failure.text}"
    if gpu.mig == "unknown" or not gpu.uuid:
        return "the driver does not tell its MIG mode or its UUID"
    if any(profiles.name_of(device, gpu) is None for device in gpu.devices):
        return "the driver does not tell which profile a partition has"
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
    # Of one GPU instance only those of one size are one part: 1c.3g.20gb@0*3.
    return (
        ",".join(
            f"{name}{at}{f'*{count}' if count > 1 else ''}"
            for (_, at, name), count in parts.items()
        )
        or "empty"
    )


def _gpu(gpu: ObservedGpu) -> Iterator[str]:
    memory = f", {gpu.memory_mib} MiB" if gpu.memory_mib else ""
    mig = {
        "enabled": "MIG on",
        "disabled": "MIG off",
        "unsupported": "no MIG",
        "unknown": "MIG unknown",
    }[gpu.mig]
    pending = f" (after the next reset: {gpu.mig_pending})" if gpu.mig_pending != gpu.mig else ""
    yield f"GPU {gpu.index}  {gpu.model or '?'}{memory}  {gpu.uuid or '?'}  {mig}{pending}"
    if gpu.failure:
        yield f"  {gpu.failure.call}: {gpu.failure.text}"
    if gpu.vitals:
        yield from (f"  {line}" for line in _health(gpu.vitals))
    if gpu.xids:
        yield from (f"  {line}" for line in _xids(gpu))
    if gpu.processes:
        yield f"  in use by process {', '.join(map(str, gpu.processes))}"
    for line in picture.drawn(gpu):
        yield f"  {line}"
    if gpu.devices:
        starts = {i.id: f"{i.start}:{i.size}" for i in gpu.gpu_instances or ()}
        rows = [("  profile", "GI", "CI", "at", "SMs", "MiB", "used", "CUDA_VISIBLE_DEVICES")]
        for d in sorted(gpu.devices, key=lambda d: (d.gpu_instance, d.compute_instance)):
            name = profiles.name_of(d, gpu) or "unknown"
            place = starts.get(d.gpu_instance, "?")
            used = "?" if d.memory_used_mib is None else str(d.memory_used_mib)
            numbers = (
                str(d.gpu_instance),
                str(d.compute_instance),
                place,
                str(d.multiprocessors),
                str(d.memory_mib),
                used,
            )
            rows.append((f"  {name}", *numbers, d.uuid))
        yield table(rows)
    elif gpu.mig == "enabled" and not gpu.failure:
        yield "  no partition"


def _health(vitals: Vitals) -> Iterator[str]:
    """A line of what is measured, and a line for each thing that is wrong."""
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
    troubles = {
        "memory errors that ECC could not correct": vitals.ecc_uncorrected,
        "rows remapped after uncorrectable errors": vitals.remapped_uncorrectable,
        "pages retired after double-bit errors": vitals.retired_double,
        # All down is how a GPU without neighbours looks.
        "NVLinks down": vitals.nvlinks_down if vitals.nvlinks_up else None,
    }
    yield from (f"! {count} {what}" for what, count in troubles.items() if count)
    if vitals.remap_failed:
        yield "! a bad memory row could not be remapped: replace the GPU"
    if vitals.remap_pending or vitals.retired_pending:
        yield "! bad memory goes out of use with the next reset"
    if vitals.slowdowns:
        yield f"! slowed down: {', '.join(vitals.slowdowns)}"
    if vitals.recovery_action not in (None, "none"):
        yield f"! the driver asks to {vitals.recovery_action}"


def _xids(gpu: ObservedGpu) -> Iterator[str]:
    """A line per Xid, how often, and when last."""
    newest = {xid.number: xid for xid in gpu.xids}
    counts = dict(gpu.xid_counts)
    for number, xid in newest.items():
        mark = "! " if gpu.stands and gpu.stands.number == number else ""
        times = f", {counts[number]} times" if counts.get(number, 1) > 1 else ""
        yield (
            f"{mark}{shown(number)}{times}, last {xid.at_s:.0f} s after "
            f"boot{f': {xid.text}' if xid.text else ''}"
        )


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
