"""The simulated clouds over HTTP in this process, found by the variables of a rehearsal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import botocore.session
import pytest

from slicewright.rehearsal.clouds.__main__ import protocols
from slicewright.rehearsal.clouds.aws.models import loader
from slicewright.rehearsal.clouds.core.control_planes import ControlPlanes
from slicewright.rehearsal.clouds.endpoint import Endpoint
from slicewright.rehearsal.clouds.service import Cloud
from slicewright.rehearsal.scenario import cloud_variables


@contextmanager
def served_clouds(
    environment: Path, planes: ControlPlanes, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    cloud = Cloud(environment, planes, ready_timeout_s=0.2)
    endpoint = Endpoint(environment)
    endpoint.protocols = protocols(cloud, endpoint.credentials)
    # Each command has a session of its own, and would read the models of EC2 and the others anew.
    monkeypatch.setattr(botocore.session, "create_loader", lambda *_: loader())
    for name in cloud_variables.USERS_OWN:
        monkeypatch.delenv(name, raising=False)
    for name, value in cloud_variables.of(endpoint.access, environment).items():
        monkeypatch.setenv(name, value)
    serving = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield cloud
    finally:
        endpoint.shutdown()
        serving.join()
        endpoint.server_close()
        assert cloud.tasks.wait(120)
