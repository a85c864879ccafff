"""Text of a proof for a terminal: a line per device, then what each kind of failure means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slicewright.node_agent.compute.judgement import Proof
from slicewright.node_agent.compute.results import DeviceResult
from slicewright.node_agent.display.show import table
from slicewright.node_agent.nvml import profiles
from slicewright.node_agent.nvml.observed import Observation

_Row = tuple[str, str, str, str, str, str, str, str]
_MARKS = {"computed": "ok", "failed": "NO", "untried": "?"}


def proof(result: Proof, observation: Observation) -> str:
    """The summary, a table of the devices, and the causes and remedies of failures."""
    names = _names(observation)
    rows = [("", "device", "is", "SMs", "tested", "written", "read", "")]
    rows += [_row(device, names.get(device.uuid, "")) for device in result.devices]
    parts = [f"{result.outcome}: {_summary(result)}", table(rows), *_explanations(result)]
    return "\n\n".join(parts)


def _names(observation: Observation) -> dict[str, str]:
    """A readable name of each device, by UUID."""
    names = {gpu.uuid: f"GPU {gpu.index}" for gpu in observation.gpus if gpu.uuid}
    for gpu in observation.gpus:
        for device in gpu.devices:
            names[device.uuid] = (
                f"GPU {gpu.index}, {profiles.name_of(device, gpu) or 'unknown profile'}"
            )
    return names


def _summary(result: Proof) -> str:
    counts = Counter(device.outcome for device in result.devices)
    text = f"{counts['computed']} of {len(result.devices)} devices computed"
    if counts["failed"]:
        text += f", {counts['failed']} failed"
    if counts["untried"]:
        text += f", {counts['untried']} could not be tried"
    cuda = f", CUDA {result.cuda // 1000}.{result.cuda % 1000 // 10}" if result.cuda else ""
    return f"{text} ({result.seconds:.1f} s{cuda})"


def _row(device: DeviceResult, name: str) -> _Row:
    mark = _MARKS[device.outcome]
    failure = device.failure
    text = f"{failure.sign.title} in {failure.step}" if failure else ""
    measured = device.measurement
    if measured is None:
        return (mark, device.uuid, name, "", "", "", "", text)
    return (
        mark,
        device.uuid,
        name,
        str(measured.multiprocessors),
        f"{measured.tested_mib} of {measured.memory_mib} MiB",
        f"{measured.write_gb_s:.0f} GB/s",
        f"{measured.read_gb_s:.0f} GB/s",
        text,
    )


def _explanations(result: Proof) -> Iterator[str]:
    """A paragraph per kind of failure, with the details of its first device."""
    explained = set()
    for device in result.devices:
        failure = device.failure
        if failure is None or failure.sign.title in explained:
            continue
        sign = failure.sign
        explained.add(sign.title)
        detail = f" ({failure.detail})" if failure.detail else ""
        yield f"{sign.title}{detail}: {sign.cause}.\n  Remedy: {sign.remedy}."
    if result.unexpected:
        yield f"CUDA showed devices that were not requested: {', '.join(result.unexpected)}."
