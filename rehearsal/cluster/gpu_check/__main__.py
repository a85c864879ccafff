"""`python -m slicewright.rehearsal.cluster.gpu_check`: compares this machine's GPUs with the
fake's.

Writes a page per model. Exit codes: 0 nothing differs; 1 something differs, or could not be
compared; 3 no driver answers, the fake cannot be built here, or the pages cannot be written.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slicewright import rehearsal
from slicewright.node_agent.nvml import profiles
from slicewright.node_agent.nvml.observed import Observation, parse
from slicewright.node_agent.xids.kernel_log import KernelLog
from slicewright.rehearsal.cluster.gpu_check import page
from slicewright.rehearsal.cluster.gpu_check.comparing import Difference, differences
from slicewright.rehearsal.cluster.gpu_check.reading import ASKED
from slicewright.rehearsal.cluster.silicon import models, placement, state
from slicewright.rehearsal.host.toolchain import Found, ToolchainError
from slicewright.rehearsal.host.toolchain.acquisition import obtain
from slicewright.rehearsal.host.toolchain.settings import from_environment
from slicewright.rehearsal.host.toolchain.tools import TOOLS

SAME, DIFFERENT, CANNOT_RUN = 0, 1, 3
_ROOT = Path(rehearsal.__file__).resolve().parents[1]
_TIMEOUT_S = 300.0


class _CannotRun(Exception):
    """Why GPUs cannot be compared here; printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="gpu-check",
        description="Compares this machine's GPUs with the fake's. Changes nothing.",
    )
    parser.add_argument(
        "--to",
        type=Path,
        default=_ROOT / "docs" / "gpu-check",
        metavar="DIRECTORY",
        help="for the pages",
    )
    options = parser.parse_args(arguments)
    try:
        real = _read(os.environ)
        if "failure" in real:
            raise _CannotRun(
                f"no NVIDIA driver answers on this machine: {real['failure']['text']} "
                f"({real['failure']['call']})"
            )
        return _check(real, options.to)
    except (_CannotRun, ToolchainError) as e:
        print(f"gpu-check: {e}", file=sys.stderr)
        return CANNOT_RUN


def _check(real: Mapping[str, Any], to: Path) -> int:
    with KernelLog() as log:
        log.read()
        xid_log = f"no: {log.unreadable}" if log.unreadable else "yes"
    first_of = {gpu["model"]: gpu for gpu in reversed(real["gpus"]) if not gpu["failure"]}
    silent = [gpu for gpu in real["gpus"] if gpu["failure"]]
    for gpu in silent:
        print(
            f"GPU {gpu['index']}: not compared: {gpu['failure']['call']}: {gpu['failure']['text']}"
        )
    result = DIFFERENT if silent or not first_of else SAME
    if not real["gpus"]:
        print("the driver reports no GPU")
    for gpu in first_of.values():
        found = compared(gpu, real["driver"], len(real["gpus"]))
        result = SAME if not found and result == SAME else DIFFERENT
        name = page.name(gpu, real["driver"])
        text = page.page(
            real, gpu, found, day=datetime.now(UTC).strftime("%Y-%m-%d"), xid_log=xid_log
        )
        listed = found if isinstance(found, str) else [vars(difference) for difference in found]
        whole = {**real, "compared": gpu["index"], "differences": listed}
        _write(to, {f"{name}.md": text, f"{name}.json": json.dumps(whole, indent=1) + "\n"})
        differ = (
            f"not compared: {found}"
            if isinstance(found, str)
            else f"{len(found)} difference(s) from the fake"
        )
        print(f"{gpu['model']}: {differ}; {to / name}.md")
        if not isinstance(found, str):
            print(
                "\n".join(f"  {d.what}: {d.real}, on the fake {d.fake}" for d in found),
                end="\n" if found else "",
            )
    return result


def _write(to: Path, pages: Mapping[str, str]) -> None:
    try:
        to.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (to / name).write_text(text, encoding="utf-8")
    except OSError as e:
        raise _CannotRun(
            f"{e.filename or to} cannot be written: {e.strerror}; name another directory with --to"
        ) from None


def compared(gpu: Mapping[str, Any], driver: str, count: int) -> tuple[Difference, ...] | str:
    """The differences, or why nothing could be compared. count: GPUs of the machine."""
    models_ = models.models()
    key = next(
        (k for k, m in models_.items() if gpu["pci_device"] == f"{m.pci_id << 16 | 0x10DE:#010x}"),
        None,
    )
    key = key or next((k for k, m in models_.items() if m.name == gpu["model"]), None)
    if key is None:
        return (
            f"the fake has no model like {gpu['model']} ({gpu['pci_device']}); it has "
            f"{', '.join(models_)}"
        )
    (library,) = _library().paths.values()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as directory:
        path = Path(directory) / "state"
        state.create(path, key, count, driver, "gpu-check")
        if gpu["mig"] == "enabled":
            state.set_mig_mode(path, 0, True)
            try:
                state.repartition(path, 0, _profiles_of(gpu))
            except (KeyError, placement.NoRoom) as e:
                return (
                    Difference(
                        what="partitions",
                        real=", ".join(_profiles_of(gpu)),
                        fake=f"impossible: {e}",
                    ),
                )
        fake = _read(
            {**os.environ, "LD_LIBRARY_PATH": str(library.parent), state.VARIABLE: str(path)}
        )
    if "failure" in fake:
        raise _CannotRun(f"the fake does not answer: {fake['failure']['text']}")
    return differences(gpu, fake["gpus"][0])


def _profiles_of(gpu: Mapping[str, Any]) -> list[str]:
    observation = {"driver": None, "cuda": None, "gpus": [_as_observed(gpu)], "failure": None}
    seen: Observation = parse(json.dumps(observation))
    return [profiles.name_of(device, seen.gpus[0]) or "unknown" for device in seen.gpus[0].devices]


def _as_observed(gpu: Mapping[str, Any]) -> dict[str, Any]:
    added = ("places", "pci_device", "compute_capability", *ASKED)
    return {key: value for key, value in gpu.items() if key not in added}


def _library() -> Found:
    """The fake, built if needed; no other tool of the toolchain."""
    tools = [tool for tool in TOOLS if tool.name == "fake-nvml"]
    (found,) = obtain(
        tools, from_environment(os.environ), lambda line: print(line, file=sys.stderr)
    )
    return found


def _read(environment: Mapping[str, str]) -> dict[str, Any]:
    argv = [sys.executable, "-m", "slicewright.rehearsal.cluster.gpu_check.reading"]
    try:
        done = subprocess.run(
            argv,
            env=dict(environment),
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _CannotRun(f"the driver did not answer all calls within {_TIMEOUT_S:g} s") from None
    if done.returncode:
        raise _CannotRun(
            "the driver cannot be read: "
            f"{done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'no output'}"
        )
    reading: dict[str, Any] = json.loads(done.stdout)
    return reading


if __name__ == "__main__":
    sys.exit(main())
