"""Signals and the listening address of a command that runs until it is stopped."""

from __future__ import annotations

import os
import threading

from slicewright.node_agent.commands.exit_codes import WrongUse


def stop_on_signals() -> threading.Event:
    """Returns an event that SIGTERM and SIGINT set."""
    from slicewright.telemetry.signals import at_signal

    stop = threading.Event()
    at_signal(stop.set)
    return stop


def listen_address() -> str:
    """Returns the address of the endpoints: the pod's, or on a host the loopback address."""
    return os.environ.get("POD_IP", "127.0.0.1")


def cannot_listen(command: str, port: int, error: OSError) -> WrongUse:
    return WrongUse(
        f"{command}: cannot listen on {listen_address()}:{port}: {error.strerror or error}"
    )
