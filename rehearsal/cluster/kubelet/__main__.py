"""`python -m slicewright.rehearsal.cluster.kubelet --environment E --cluster NAME`: runs until
SIGTERM.
"""

from __future__ import annotations

import os

# grpc's fork handlers are for programs that use it in the child; here every child execs at once.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import argparse
import asyncio
import logging
import resource
import signal
import sys
from pathlib import Path

from slicewright.rehearsal.cluster.control_plane import process_images
from slicewright.rehearsal.cluster.kubelet.cluster import ClusterKubelet
from slicewright.rehearsal.cluster.kubelet.containers.backoff import (
    INITIAL_S,
    LONGEST_S,
    PullPauses,
)
from slicewright.rehearsal.cluster.kubelet.pods import large_fleets
from slicewright.rehearsal.cluster.kubelet.pods.addresses import NoAddress
from slicewright.rehearsal.cluster.node import container_runtime, launcher
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.host.toolchain.errors import ToolchainError


async def _run(
    environment: Path,
    cluster: str,
    toolchain: Toolchain,
    longest_back_off_s: float,
    pull_pauses: PullPauses,
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    runtime = container_runtime.mode_of(os.environ)
    kubelet = ClusterKubelet(
        environment,
        cluster,
        toolchain,
        runtime,
        longest_back_off_s=longest_back_off_s,
        pull_pauses=pull_pauses,
        operands=process_images.mode_of(os.environ),
        starts=large_fleets.mode_of(os.environ),
    )
    await kubelet.run(
        stopping, lambda: print(f"kubelet stand-in of {cluster}: watching", flush=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slicewright.rehearsal.cluster.kubelet", description=__doc__
    )
    parser.add_argument("--environment", type=Path, required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument(
        "--max-container-restart-period",
        type=float,
        default=LONGEST_S,
        metavar="SECONDS",
        help="the kubelet's crashLoopBackOff.maxContainerRestartPeriod (default 300)",
    )
    parser.add_argument(
        "--image-pull-back-off",
        type=float,
        default=INITIAL_S,
        metavar="SECONDS",
        help="until an image that did not come is pulled again, doubled each time (default 10)",
    )
    asked = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    if why := launcher.why_not():
        print(f"kubelet stand-in: {why}", file=sys.stderr)
        return 1
    # Eight descriptors per node: the usual soft limit of 1024 allows 120 nodes.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65536)), hard))
    environment = asked.environment.resolve()
    try:
        asyncio.run(
            _run(
                environment,
                asked.cluster,
                Toolchain.load(environment / "toolchain.json"),
                asked.max_container_restart_period,
                PullPauses(first_s=asked.image_pull_back_off),
            )
        )
    except (OSError, ValueError, KeyError, ToolchainError, NoAddress) as e:
        print(f"kubelet stand-in of {asked.cluster}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads may still wait for the API server; the pods' processes have ended.
    os._exit(status)
