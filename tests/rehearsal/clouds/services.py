"""The simulated clouds as a process, as in a rehearsal."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core import access
from slicewright.rehearsal.clouds.core.client import CloudClient
from slicewright.rehearsal.clouds.gcp.rest.endpoints import TERRAFORM_VARIABLES, terraform_endpoint
from slicewright.rehearsal.plugins.providers.gcp.client import GoogleClient

Start = Callable[[], "subprocess.Popen[bytes]"]


@contextmanager
def services(environment: Path) -> Iterator[Start]:
    """Gives a function that starts the service and waits until it answers.

    Control planes are fake, the AWS account has no delays; the log is `service.log`.
    """
    write_account(environment, **PROMPT)
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        argv = [
            sys.executable,
            "-m",
            "slicewright.rehearsal.clouds",
            "--environment",
            str(environment),
            "--fake-control-planes",
        ]
        with (environment / "service.log").open("wb") as log:
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=log)
        running.append(process)
        deadline = time.monotonic() + 180
        while not CloudClient(environment).is_up():
            assert process.poll() is None, "the service ended"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()


def google(environment: Path) -> GoogleClient:
    """A client of the simulated Google Cloud of a service that runs."""
    found = access.load(environment)
    assert found is not None
    endpoints = {service: terraform_endpoint(service, found.url) for service in TERRAFORM_VARIABLES}
    return GoogleClient(endpoints, found.credentials.google_access_token)
