"""`slicewright-agent prove`: computes on every partition and whole GPU of this machine."""

from __future__ import annotations

import argparse
import json
from typing import Any, Final

from slicewright.node_agent.commands import options
from slicewright.node_agent.commands.exit_codes import MISMATCH, OK, UNKNOWN
from slicewright.node_agent.compute import children, judgement
from slicewright.node_agent.compute.children import Limits
from slicewright.node_agent.compute.judgement import Proof
from slicewright.node_agent.compute.occupancy import devices_of, occupants
from slicewright.node_agent.display import proof_table, show
from slicewright.node_agent.host import gpu_processes
from slicewright.node_agent.host.mig_state import Process
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.nvml.prober import Prober

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
    parser.add_argument("--json", action="store_true", help="everything that was measured, as JSON")
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    prober = Prober.start(deadline_s=options.deadline_s(parsed))
    try:
        observation = prober.probe(thorough=True)
        if why := _unreadable(observation):
            return _refuse(parsed, why)
        devices = devices_of(observation)
        if not any(devices.values()):
            return _refuse(parsed, "there is nothing to prove: no partition and no whole GPU")
        if why := "; ".join(_users(observation)):
            return _refuse(parsed, f"nothing was computed beside others: {why}")
        proof = children.prove(
            devices,
            occupants=lambda children_ids: _users(prober.probe(thorough=True), children_ids),
            limits=Limits(total_s=parsed.timeout),
        )
    finally:
        prober.close()
    print(_json(proof) if parsed.json else proof_table.proof(proof, observation))
    return _EXIT_CODES[proof.outcome]


def _refuse(parsed: argparse.Namespace, why: str) -> int:
    if parsed.json:
        print(json.dumps({"outcome": "untried", "why": why}))
    else:
        print(f"untried: {why}")
    return UNKNOWN


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
