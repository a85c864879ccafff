"""The gcp stand-in's calls: endpoints and token from the environment, and refusals as they come."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from slicewright.rehearsal.clouds.core.client import CloudUnreachable
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.rest.endpoints import TERRAFORM_VARIABLES, terraform_endpoint
from slicewright.rehearsal.plugins.providers.gcp.client import GoogleClient, connect
from tests.rehearsal.plugins.providers.gcp.conftest import NETWORK, GcpEngine

_GET = (
    "container",
    "projects.locations.clusters.get",
    {"name": "projects/a/locations/b/clusters/c"},
)


class Recorded(ThreadingHTTPServer):
    """Answers every request with `answer`, or closes the connection where that is None."""

    answer: tuple[int, bytes] | None = (200, b"{}")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def client(self) -> GoogleClient:
        endpoints = {s: terraform_endpoint(s, self.url) for s in TERRAFORM_VARIABLES}
        return GoogleClient(endpoints, "the-token", timeout_s=10)


class _Handler(BaseHTTPRequestHandler):
    server: Recorded

    def _serve(self) -> None:
        self.server.seen.append((self.command, self.path, self.headers["Authorization"]))
        if self.server.answer is None:
            self.close_connection = True
            return
        status, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    server = Recorded()
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def refused(recorded: Recorded, status: int, body: bytes) -> CloudError:
    recorded.answer = (status, body)
    with pytest.raises(CloudError) as caught:
        recorded.client().call(*_GET)
    assert caught.value.code == status
    return caught.value


def test_calls_go_to_the_configured_endpoint_with_the_token(recorded: Recorded) -> None:
    recorded.client().call(*_GET)
    recorded.client().call("compute", "networks.get", {"project": "acme", "network": "net"})
    container, compute = (
        "/container.googleapis.com/v1/projects/a/locations/b/clusters/c?alt=json",
        "/compute.googleapis.com/compute/v1/projects/acme/global/networks/net?alt=json",
    )
    assert recorded.seen == [
        ("GET", container, "Bearer the-token"),
        ("GET", compute, "Bearer the-token"),
    ]


def test_a_refusal_has_the_status_or_computes_reason(recorded: Recorded) -> None:
    body = {"code": 400, "message": "busy", "status": "FAILED_PRECONDITION"}
    assert refused(recorded, 400, json.dumps({"error": body}).encode()).reason == body["status"]
    for reason, status in (
        ("alreadyExists", "ALREADY_EXISTS"),
        ("resourceInUseByAnotherResource", "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"),
        ("invalid", "INVALID_ARGUMENT"),
        ("rateLimitExceeded", "RESOURCE_EXHAUSTED"),
    ):
        body = {"code": 400, "message": "no", "errors": [{"reason": reason}]}
        found = refused(recorded, 400, json.dumps({"error": body}).encode())
        assert (found.reason, found.message) == (status, "no")


def test_a_page_instead_of_an_error_is_the_message(recorded: Recorded) -> None:
    found = refused(recorded, 502, b"<html>bad gateway</html>\n")
    assert found.message == "<html>bad gateway</html>"


def test_a_request_is_not_sent_again_when_the_connection_breaks(recorded: Recorded) -> None:
    recorded.answer = None
    where = {"parent": "projects/a/locations/b"}
    with pytest.raises(CloudError) as caught:
        recorded.client().call(
            "container", "projects.locations.clusters.create", where, {"cluster": {"name": "c"}}
        )
    assert caught.value.code == 503
    assert len(recorded.seen) == 1


def test_a_parameter_that_googles_client_refuses_is_a_wrong_request(recorded: Recorded) -> None:
    with pytest.raises(CloudError) as caught:
        recorded.client().call("compute", "networks.get", {"project": "acme", "network": "N E T"})
    assert (caught.value.code, caught.value.reason) == (400, "INVALID_ARGUMENT")
    assert not recorded.seen


def test_message_says_that_nothing_listens() -> None:
    endpoints = {s: terraform_endpoint(s, "http://127.0.0.1:1") for s in TERRAFORM_VARIABLES}
    with pytest.raises(CloudUnreachable, match=r"no simulated cloud answers on 127\.0\.0\.1:1"):
        GoogleClient(endpoints, "t").call(*_GET)


def test_without_its_variables_nothing_is_called(
    engine: GcpEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT")
    with pytest.raises(CloudUnreachable, match="GOOGLE_COMPUTE_CUSTOM_ENDPOINT not set"):
        connect()


def test_a_rate_limit_and_a_lost_connection_do_not_end_a_create(engine: GcpEngine) -> None:
    faults = [
        {"fault": "throttling", "method": "compute.networks.insert", "times": 2},
        {"fault": "connection-reset", "method": "compute.networks.get", "times": 1},
    ]
    (engine.environment / "faults.json").write_text(json.dumps(faults))
    network = engine.make(NETWORK, "net", name="net", autoCreateSubnetworks=False)
    assert network.id == "projects/acme/global/networks/net"


def test_a_cluster_waits_for_an_operation_in_progress(engine: GcpEngine) -> None:
    fault = {
        "fault": "api-error",
        "method": "container.projects.locations.clusters.create",
        "code": 409,
        "status": "OPERATION_IN_PROGRESS",
        "times": 2,
    }
    (engine.environment / "faults.json").write_text(json.dumps([fault]))
    assert engine.base().id == "projects/acme/locations/us-central1/clusters/main"


def test_a_plugin_that_calls_nothing_does_not_pay_for_the_client() -> None:
    code = (
        "import sys, slicewright.rehearsal.plugins.providers.gcp.provider\n"
        "print(sorted({'googleapiclient.discovery', 'httplib2', 'google.auth'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
