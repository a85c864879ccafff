"""The comparison of one GPU model as a Markdown page. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slicewright.rehearsal.cluster.gpu_check.comparing import Difference


def name(gpu: Mapping[str, Any], driver: str) -> str:
    """Of the files: `nvidia-h100-80gb-hbm3-550.90.07`."""
    return re.sub(r"[^a-z0-9.]+", "-", f"{gpu['model']} {driver}".lower()).strip("-")


def page(
    reading: Mapping[str, Any],
    gpu: Mapping[str, Any],
    found: Sequence[Difference] | str,
    *,
    day: str,
    xid_log: str,
) -> str:
    """found: the differences, or why nothing was compared. xid_log: whether Xids are readable."""
    return "\n".join(_lines(reading, gpu, found, day, xid_log)) + "\n"


def _lines(
    reading: Mapping[str, Any],
    gpu: Mapping[str, Any],
    found: Sequence[Difference] | str,
    day: str,
    xid_log: str,
) -> Iterator[str]:
    yield from _heading(reading, gpu, day)
    yield from ("## What differs from the fake", "")
    yield from _differences(found)
    yield from _profiles(gpu)
    yield from _readings(reading, gpu, xid_log)
    yield from _constants(gpu)


def _heading(reading: Mapping[str, Any], gpu: Mapping[str, Any], day: str) -> Iterator[str]:
    source = (
        "SIMULATED: read from the fake library"
        if reading["simulated"]
        else "Read from a real driver"
    )
    yield from (
        f"# {gpu['model']}, driver {reading['driver']}",
        "",
        f"{source} by `make gpu-check` on {day}, "
        f"{'as root' if reading['privileged'] else 'without privileges'}; nothing was"
        " written to the GPU. Times are measured.",
        "",
        f"{len(reading['gpus'])} GPU(s); CUDA {reading['cuda']}; {gpu['memory_mib']} MiB; "
        f"MIG {gpu['mig']}"
        f" (after the next reset {gpu['mig_pending']}).",
        "",
    )


def _differences(found: Sequence[Difference] | str) -> Iterator[str]:
    if isinstance(found, str):
        yield f"Not compared: {found}"
    elif found:
        yield from _table(
            ("what", "this driver", "fake"), [(d.what, d.real, d.fake) for d in found]
        )
    else:
        yield "Nothing."


def _profiles(gpu: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", "## Profiles", "")
    yield from _table(
        ("profile", "ID", "maximum", "slices", "SMs", "MiB", "placements"),
        [
            (
                p["name"],
                p["id"],
                p["most"],
                p["slices"],
                p["multiprocessors"],
                p["memory_mib"],
                _places(gpu, p["name"]),
            )
            for p in gpu["offered"]
        ],
    )


def _readings(reading: Mapping[str, Any], gpu: Mapping[str, Any], xid_log: str) -> Iterator[str]:
    failure = gpu["utilization_failure"]
    utilization = f"no: {failure['call']}: {failure['text']}" if failure else "yes"
    yield from (
        "",
        "## What else the agent can read here",
        "",
        f"- Utilization (GPM): {utilization}",
        f"- Xids from the kernel's log: {xid_log}",
        "",
        "## Milliseconds per probe",
        "",
    )
    yield from _table(
        ("probe", "median", "longest", "probes"),
        [(k, *v.values()) for k, v in reading["milliseconds"].items()],
    )


def _constants(gpu: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", "## Constants of the model", "")
    yield from _table(("what", "value"), list(gpu["constants"].items()))
    valued = [number for number, found in gpu["fields"].items() if found.startswith("type")]
    yield from ("", f"Field values that have one: {', '.join(valued) or 'none'}.")
    yield from ("", "## Error codes", "")
    yield from _table(("call", "code"), list(gpu["answers"].items()))


def _places(gpu: Mapping[str, Any], profile: str | None) -> str:
    place = gpu["places"].get(profile)
    return f"{','.join(map(str, place['starts']))} : {place['size']}" if place else "not reported"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    if not rows:
        yield "None."
        return
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(map(str, row))} |" for row in rows)
