"""`slicewright-agent attribution`: exports which pod uses which partition."""

from __future__ import annotations

import argparse
from typing import Any, Final

from slicewright.node_agent.commands import options
from slicewright.node_agent.commands.exit_codes import OK
from slicewright.node_agent.commands.service import cannot_listen, listen_address, stop_on_signals

_PORT: Final = 9472


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "attribution", help="export which pod uses which partition, for Prometheus (root)"
    )
    options.add_service(parser, repeats="calls of the kubelet", port=_PORT)
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    from slicewright.node_agent.attribution import exporter, pod_resources
    from slicewright.telemetry import log

    stop = stop_on_signals()
    log.start()
    try:
        exporter.run(
            pod_resources.SOCKET,
            address=listen_address(),
            port=parsed.port,
            interval_s=parsed.interval,
            stop=stop,
        )
    except OSError as e:
        raise cannot_listen("attribution", parsed.port, e) from None
    return OK
