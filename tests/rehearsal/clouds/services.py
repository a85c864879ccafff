"""The simulated cloud as the process that it is in a rehearsal."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rehearsal.clouds.core.client import CloudClient

Start = Callable[[], "subprocess.Popen[bytes]"]


@contextmanager
def services(environment: Path) -> Iterator[Start]:
    """What it gives starts the service, clusters on paper, and waits until it answers. Its words
    are in `service.log`.
    """
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        argv = [
            sys.executable,
            "-m",
            "rehearsal.clouds",
            "--environment",
            str(environment),
            "--paper",
        ]
        with (environment / "service.log").open("wb") as log:
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=log)
        running.append(process)
        deadline = time.monotonic() + 60
        while not CloudClient(environment).is_up():
            assert process.poll() is None, "the service ended"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
