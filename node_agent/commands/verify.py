"""`slicewright-agent verify`: compares this machine's GPUs once."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, Final

from slicewright.node_agent.commands import options
from slicewright.node_agent.commands.exit_codes import MISMATCH, OK, UNKNOWN, WrongUse
from slicewright.node_agent.commands.input_files import read_desired, read_layout
from slicewright.node_agent.display import show
from slicewright.node_agent.nvml.prober import probe_once
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.verify import verify, verify_layout

if TYPE_CHECKING:
    from slicewright.node_agent.cluster.node import NodeState

_EXIT_CODES: Final = {"Match": OK, "Mismatch": MISMATCH, "Unknown": UNKNOWN}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "verify",
        parents=[options.deadline(), options.layout()],
        help="compare with a layout or a desired-state file (exit code 0, 1 or 2)",
    )
    options.add_desired(parser)
    parser.add_argument(
        "--silicon-only",
        action="store_true",
        help="do not check what the kubelet advertises (not a Kubernetes node)",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    if bool(parsed.desired) == bool(parsed.layout or parsed.file):
        raise WrongUse("verify: give either --desired FILE or a layout (LAYOUT or --file FILE)")
    verdict = _verify_desired(parsed) if parsed.desired else _verify_layout(parsed)
    print(show.verdict(verdict))
    return _EXIT_CODES[verdict.verdict]


def _verify_desired(parsed: argparse.Namespace) -> Verdict:
    desired = read_desired(parsed.desired)
    observation = probe_once(options.deadline_s(parsed, gpus=desired.gpu_count))
    node = None if parsed.silicon_only else _read_own_node()
    return verify(desired, observation, node, silicon_only=parsed.silicon_only)


def _verify_layout(parsed: argparse.Namespace) -> Verdict:
    layout = read_layout(parsed)
    observation = probe_once(options.deadline_s(parsed))
    expected = {} if observation.failure else layout.resolve(observation.uuids)
    return verify_layout(layout, expected, observation)


def _read_own_node() -> NodeState:
    # Imported here: a host without Kubernetes needs none of them.
    from slicewright.kubeapi import ApiError, Client, Unreachable
    from slicewright.kubeapi.client import path_of
    from slicewright.node_agent.cluster.node import read

    name = os.environ.get("NODE_NAME")
    if not name:
        raise WrongUse(
            "verify: NODE_NAME is not set; on a machine that is not a Kubernetes node, add "
            "--silicon-only"
        )
    try:
        return read(
            Client.in_cluster(user_agent="slicewright-node-agent").get(path_of("v1", "nodes", name))
        )
    except (ApiError, Unreachable) as e:
        raise WrongUse(f"verify: Node {name!r} cannot be read: {e}") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise WrongUse(f"verify: the answer for Node {name!r} is not a valid Node") from None
