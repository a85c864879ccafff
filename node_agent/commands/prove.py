"""`slicewright-agent prove`: computes on every partition and whole GPU of this machine."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from slicewright.node_agent.commands import options
from slicewright.node_agent.commands.exit_codes import MISMATCH, OK, UNKNOWN, WRONG_DEVICE
from slicewright.node_agent.compute import allotment, children, judgement
from slicewright.node_agent.compute.allotment import WHOLE_GPU
from slicewright.node_agent.compute.children import Limits, Occupants
from slicewright.node_agent.compute.judgement import Proof
from slicewright.node_agent.compute.occupancy import devices_of, occupants
from slicewright.node_agent.display import proof_table, show
from slicewright.node_agent.host import gpu_processes
from slicewright.node_agent.host.mig_state import Process
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.nvml.prober import Prober

_LONGEST_MESSAGE: Final = 1000
"""Characters. The kubelet keeps 4096 bytes of a container's termination message."""
_EXIT_CODES: Final = {"computed": OK, "failed": MISMATCH, "untried": UNKNOWN}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "prove",
        parents=[options.deadline()],
        help="compute on every partition and whole GPU, with CUDA (exit code 0, 1 or 2)",
    )
    parser.add_argument(
        "--timeout",
        type=options.seconds,
        default=Limits.total_s,
        metavar="SECONDS",
        help=f"time limit of the whole proof (default {Limits.total_s:g})",
    )
    parser.add_argument(
        "--allotted",
        metavar="DEVICE",
        help="in a pod that requests one device: prove the device of this container, which must be "
        f"a partition of the profile DEVICE (such as 1g.10gb), or with `{WHOLE_GPU}` a GPU without "
        "MIG (exit code 4 for another device). Processes of other containers are not looked at",
    )
    parser.add_argument(
        "--message",
        type=Path,
        metavar="FILE",
        help="write a summary to a file, such as a container's termination message",
    )
    parser.add_argument("--json", action="store_true", help="everything that was measured, as JSON")
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    prober = Prober.start(deadline_s=options.deadline_s(parsed))
    try:
        observation = prober.probe(thorough=True)
        if why := _unreadable(observation):
            return _refuse(parsed, why)
        devices = devices_of(observation)
        if parsed.allotted is not None:
            if why := allotment.problem(observation, parsed.allotted):
                return _refuse(parsed, why, outcome="wrong device", exit_code=WRONG_DEVICE)
        elif not any(devices.values()):
            return _refuse(parsed, "there is nothing to prove: no partition and no whole GPU")
        elif why := "; ".join(_users(observation)):
            return _refuse(parsed, f"nothing was computed beside others: {why}")
        proof = children.prove(
            devices,
            occupants=_occupants(prober, parsed),
            limits=Limits(total_s=parsed.timeout),
        )
    finally:
        prober.close()
    _write_message(parsed, allotment.summary(proof))
    print(_json(proof) if parsed.json else proof_table.proof(proof, observation))
    return _EXIT_CODES[proof.outcome]


def _occupants(prober: Prober, parsed: argparse.Namespace) -> Occupants:
    """Finds the processes of others. In a pod, the device plugin decides who uses a device."""
    if parsed.allotted is not None:
        return lambda _: ()
    return lambda children_ids: _users(prober.probe(thorough=True), children_ids)


def _refuse(
    parsed: argparse.Namespace, why: str, *, outcome: str = "untried", exit_code: int = UNKNOWN
) -> int:
    _write_message(parsed, f"{outcome}: {why}")
    if parsed.json:
        print(json.dumps({"outcome": outcome, "why": why}))
    else:
        print(f"{outcome}: {why}")
    return exit_code


def _write_message(parsed: argparse.Namespace, text: str) -> None:
    if parsed.message is None:
        return
    try:
        parsed.message.write_text(text[:_LONGEST_MESSAGE], encoding="utf-8")
    except OSError as e:
        print(f"{parsed.message} not written: {e}", file=sys.stderr)


def _json(proof: Proof) -> str:
    return json.dumps(judgement.as_json(proof), separators=(",", ":"))


def _unreadable(observation: Observation) -> str | None:
    if observation.failure:
        return show.gpus(observation)
    failures = [
        f"GPU {gpu.index}: {gpu.failure.text} ({gpu.failure.call})"
        for gpu in observation.gpus
        if gpu.failure
    ]
    return f"the driver cannot read {'; '.join(failures)}" if failures else None


def _users(observation: Observation, excluded: frozenset[int] = frozenset()) -> list[str]:
    return occupants(observation, excluded=excluded, describe=_describe)


def _describe(pid: int) -> str:
    process = Process(
        pid=pid, name=gpu_processes.name_of(pid), gpu_instance=None, compute_instance=None
    )
    return gpu_processes.describe(process)
