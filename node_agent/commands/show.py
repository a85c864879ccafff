"""`slicewright-agent show`: shows GPUs and partitions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from slicewright.apis.layout import WHOLE, Layout, LayoutError, parse_gpus
from slicewright.node_agent.commands import options
from slicewright.node_agent.commands.exit_codes import OK, UNKNOWN, WrongUse
from slicewright.node_agent.display import show
from slicewright.node_agent.nvml import addresses, observed
from slicewright.node_agent.nvml.addresses import Address
from slicewright.node_agent.nvml.observed import MigDevice, Observation, ObservedGpu
from slicewright.node_agent.nvml.prober import probe_once
from slicewright.node_agent.xids.history import XidHistory
from slicewright.node_agent.xids.kernel_log import KernelLog


@dataclass(frozen=True, kw_only=True)
class _Selection:
    """The part of an observation that the command line names."""

    gpus: Sequence[ObservedGpu]
    device: MigDevice | None = None
    """A MIG device of the only GPU, if the command line names the device."""
    named: bool = True
    """False if the command line names nothing, which selects every GPU."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "show", parents=[options.deadline()], help="show GPUs and partitions"
    )
    parser.add_argument(
        "address",
        nargs="?",
        metavar="GPU",
        help="only these GPUs (2, 0-3, 0,2 or GPU-<uuid>) or this MIG device (MIG-<uuid>)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything that was read, as JSON")
    form.add_argument(
        "--profiles",
        action="store_true",
        help="the profiles that each GPU offers, with their placements (placements: root)",
    )
    form.add_argument(
        "--layout",
        action="store_true",
        help="the current layout of the machine or these GPUs, by UUID, in the format of `apply`",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    address = _parse_address(parsed.address) if parsed.address else None
    observation = probe_once(options.deadline_s(parsed), thorough=True)
    if observation.failure:
        print(observed.dump(observation) if parsed.json else show.gpus(observation))
        return UNKNOWN
    with KernelLog() as log:
        history = XidHistory()
        history.add(log.read(), old=True)
    observation = history.annotate(observation)
    selection = _select(address, observation, parsed)
    print(_render(selection, observation, parsed))
    plain_overview = not (selection.named or parsed.json or parsed.profiles or parsed.layout)
    if plain_overview and log.unreadable:
        print(f"\nXids cannot be read: {log.unreadable}")
    return OK


def _parse_address(text: str) -> Address | Layout:
    """Parses a GPU or MIG device by UUID, or GPUs by number."""
    if (address := addresses.parse_or_none(text)) is not None:
        return address
    try:
        return parse_gpus(text, WHOLE)
    except LayoutError:
        raise WrongUse(
            f"show: {text!r} names neither GPUs nor a MIG device; write GPUs as 2, 0-3 or "
            "GPU-<uuid>, a MIG device as MIG-<uuid> or "
            "MIG-GPU-<uuid>/<GPU instance>/<compute instance>"
        ) from None


def _select(
    address: Address | Layout | None, observation: Observation, parsed: argparse.Namespace
) -> _Selection:
    if address is None:
        return _Selection(gpus=observation.gpus, named=False)
    if isinstance(address, Layout):
        indexes = address.resolve(observation.uuids)
        return _Selection(gpus=[gpu for gpu in observation.gpus if gpu.index in indexes])
    match = addresses.find(address, observation)
    if match is None:
        raise WrongUse(f"show: {parsed.address} is not on this machine")
    gpu, device = match
    if device and parsed.layout:
        raise WrongUse(f"show: --layout works on whole GPUs only; write {gpu.index} or {gpu.uuid}")
    return _Selection(gpus=[gpu], device=device)


def _render(selection: _Selection, observation: Observation, parsed: argparse.Namespace) -> str:
    gpus, device = selection.gpus, selection.device
    if parsed.profiles:
        return _profiles(gpus, options.deadline_s(parsed))
    if parsed.layout:
        return show.layout(gpus)
    if parsed.json:
        if device or (selection.named and len(gpus) == 1):
            return observed.as_json(device or gpus[0])
        return observed.dump(replace(observation, gpus=tuple(gpus)))
    if device:
        return show.device(gpus[0], device)
    return show.blocks(gpus) if selection.named else show.gpus(observation)


def _profiles(gpus: Sequence[ObservedGpu], deadline_s: float) -> str:
    from slicewright.node_agent.host import commands as host
    from slicewright.node_agent.host.transaction import NvmlCallFailed

    try:
        return host.profiles(gpus, deadline_s=deadline_s)
    except NvmlCallFailed as e:
        raise WrongUse(f"show: {e}") from None
