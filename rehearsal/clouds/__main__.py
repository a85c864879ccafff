"""`python -m slicewright.rehearsal.clouds --environment E`: serves the simulated clouds until
SIGTERM.
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from slicewright.rehearsal.clouds.aws import cli as aws_cli
from slicewright.rehearsal.clouds.aws.protocols.service import AwsProtocols
from slicewright.rehearsal.clouds.cluster_access import ClusterAccess
from slicewright.rehearsal.clouds.core.access import Credentials
from slicewright.rehearsal.clouds.core.control_planes import ControlPlanes, LocalControlPlanes
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from slicewright.rehearsal.clouds.core.fault_file import FaultFileError
from slicewright.rehearsal.clouds.core.http_messages import Protocols
from slicewright.rehearsal.clouds.endpoint import Endpoint, PortTaken
from slicewright.rehearsal.clouds.gcp import gke_auth
from slicewright.rehearsal.clouds.gcp.rest.protocol import GoogleRest
from slicewright.rehearsal.clouds.server import AlreadyServed, Server
from slicewright.rehearsal.clouds.service import Cloud
from slicewright.rehearsal.clouds.token_info import TokenInfo
from slicewright.telemetry.signals import at_signal

_LOOK_S = 0.5


def _look_around(cloud: Cloud) -> None:
    try:
        cloud.look_around()
    except FaultFileError:
        pass  # every call says so
    except Exception:
        # The service goes on: without it nothing could be listed or deleted.
        logging.getLogger(__name__).exception("what happens without a call")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="slicewright.rehearsal.clouds",
        description="The simulated clouds of one rehearsal environment.",
    )
    parser.add_argument(
        "--environment", type=Path, required=True, help="the environment's directory"
    )
    parser.add_argument(
        "--fake-control-planes",
        action="store_true",
        help="start no API servers, keep nodes in files: for tests of the clouds alone",
    )
    arguments = parser.parse_args()
    environment: Path = arguments.environment.absolute()
    if not environment.is_dir():
        print(f"slicewright.rehearsal.clouds: {environment} is not a directory", file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    planes: ControlPlanes = (
        FakeControlPlanes(environment)
        if arguments.fake_control_planes
        else LocalControlPlanes(environment)
    )
    cloud = Cloud(environment, planes)
    try:
        server = Server(environment / "cloud.sock", cloud)
    except AlreadyServed as e:
        print(f"slicewright.rehearsal.clouds: {e}", file=sys.stderr)
        return 1
    try:
        endpoint = Endpoint(environment)
    except PortTaken as e:
        server.server_close()
        print(f"slicewright.rehearsal.clouds: {e}", file=sys.stderr)
        return 1
    endpoint.protocols = protocols(cloud, endpoint.credentials)
    resumed = cloud.resume()
    if resumed:
        logging.getLogger(__name__).info(
            "resuming the work of a predecessor: %s", ", ".join(resumed)
        )
    stop = threading.Event()
    at_signal(stop.set)
    # The socket's server says that the clouds are up, so it is the last to start.
    for each in (endpoint, server):
        threading.Thread(
            target=each.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        ).start()
    while not stop.wait(_LOOK_S):
        _look_around(cloud)
    for each in (server, endpoint):
        each.shutdown()
        each.server_close()
    return 0


def protocols(cloud: Cloud, credentials: Credentials) -> Sequence[Protocols]:
    """Of each cloud, and of their clusters' API servers; the first that accepts a request answers
    it.
    """
    token = credentials.google_access_token
    access = ClusterAccess(cloud.cluster_users, token, (gke_auth.PREFIX, aws_cli.PREFIX))
    token_info = TokenInfo(cloud.google_account, token)
    aws = AwsProtocols(cloud.call, credentials)
    return (access, token_info, aws, GoogleRest(cloud.call, token=token))


if __name__ == "__main__":
    sys.exit(main())
