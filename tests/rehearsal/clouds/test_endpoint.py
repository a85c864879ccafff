"""The HTTP endpoint of the clouds: its port, its credentials, and what it does with a request."""

from __future__ import annotations

import http.client
import json
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slicewright.rehearsal.clouds.core import access
from slicewright.rehearsal.clouds.core.errors import ConnectionLost
from slicewright.rehearsal.clouds.core.http_messages import Request, Response
from slicewright.rehearsal.clouds.endpoint import Endpoint, PortTaken
from tests.rehearsal.clouds.services import Start, services


class Echo:
    """Answers with what it was given; accepts paths below its own."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.seen: list[Request] = []

    def accepts(self, request: Request) -> bool:
        return request.path.startswith(self.path)

    def answer(self, request: Request) -> Response:
        self.seen.append(request)
        if request.path.endswith("broken"):
            raise ZeroDivisionError("by a protocol")
        if request.path.endswith("lost"):
            raise ConnectionLost
        return Response(status=201, body=request.body, headers={"X-By": self.path})


Serve = Callable[..., Endpoint]


@pytest.fixture
def serve(clouds_over_http: None, environment: Path) -> Iterator[Serve]:
    running: list[Endpoint] = []

    def serve(*protocols: Echo) -> Endpoint:
        endpoint = Endpoint(environment)
        endpoint.protocols = protocols
        threading.Thread(
            target=endpoint.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        running.append(endpoint)
        return endpoint

    yield serve
    for endpoint in running:
        endpoint.shutdown()
        endpoint.server_close()


def connect(endpoint: Endpoint) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(access.ADDRESS, endpoint.access.port, timeout=120)


def test_request_reaches_the_first_accepting_cloud_unchanged(serve: Serve) -> None:
    first, second, third = Echo("/x/"), Echo("/clusters/"), Echo("/")
    connection = connect(serve(first, second, third))
    connection.request(
        "PATCH", "/clusters/a%2Fb?mask=c%20d", b"\x00\xff", {"X-Amz-Target": "T", "Accept": "*/*"}
    )
    answer = connection.getresponse()
    assert (answer.status, answer.headers["X-By"], answer.read()) == (
        201,
        "/clusters/",
        b"\x00\xff",
    )
    (seen,) = second.seen
    assert (seen.method, seen.path, seen.query) == ("PATCH", "/clusters/a%2Fb", "mask=c%20d")
    assert seen.headers["x-amz-target"] == "T"
    assert not first.seen
    assert not third.seen


def test_a_connection_serves_many_requests(serve: Serve) -> None:
    connection = connect(serve(Echo("/")))
    connection.connect()
    opened = connection.sock
    for _ in range(3):
        connection.request("POST", "/", b"body")
        assert connection.getresponse().read() == b"body"
    assert connection.sock is opened


def test_request_that_no_cloud_accepts_is_refused(serve: Serve) -> None:
    connection = connect(serve(Echo("/aws")))
    connection.request("GET", "/else")
    answer = connection.getresponse()
    assert answer.status == 404
    assert b"none of the rehearsal's clouds" in answer.read()


def test_an_internal_error_is_an_answer_and_the_connection_lives_on(serve: Serve) -> None:
    connection = connect(serve(Echo("/")))
    connection.request("GET", "/broken")
    answer = connection.getresponse()
    assert answer.status == 500
    assert b"ZeroDivisionError" in answer.read()
    connection.request("GET", "/works")
    assert connection.getresponse().status == 201


def test_a_lost_connection_is_no_answer(serve: Serve) -> None:
    connection = connect(serve(Echo("/")))
    connection.request("GET", "/lost")
    with pytest.raises(http.client.RemoteDisconnected):
        connection.getresponse()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": "-1"}, 400),
        ({"Content-Length": str(1 << 40)}, 413),
    ],
)
def test_a_body_whose_end_is_not_known_is_refused_and_the_connection_closed(
    serve: Serve, headers: dict[str, str], status: int
) -> None:
    echo = Echo("/")
    connection = connect(serve(echo))
    connection.putrequest("POST", "/")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Connection"]) == (status, "close")
    assert not echo.seen


def test_only_this_user_can_read_the_port_and_the_keys(serve: Serve, environment: Path) -> None:
    endpoint = serve()
    path = environment / access.FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert access.load(environment) == endpoint.access
    assert endpoint.server_address[0] == "127.0.0.1"


def test_each_environment_has_keys_of_its_own() -> None:
    first, second = access.new_credentials(), access.new_credentials()
    assert first.aws_access_key_id != second.aws_access_key_id
    assert first.aws_secret_access_key != second.aws_secret_access_key
    assert first.google_access_token != second.google_access_token
    assert first.aws_secret_access_key not in repr(first)
    assert first.google_access_token not in repr(first)
    # IAM's own constraint on AccessKeyId: [\w]+ of 16 to 128 characters.
    assert first.aws_access_key_id.isalnum()
    assert 16 <= len(first.aws_access_key_id) <= 128


@pytest.mark.usefixtures("clouds_over_http")
def test_port_and_keys_survive_a_kill_of_the_service(environment: Path) -> None:
    with services(environment) as start:
        process = start()
        before = access.load(environment)
        assert before is not None
        client = socket.create_connection((access.ADDRESS, before.port))
        process.kill()
        process.wait()
        start()
        client.close()
        assert access.load(environment) == before
        socket.create_connection((access.ADDRESS, before.port)).close()


def test_a_port_that_another_process_has_taken_is_named(environment: Path, serve: Serve) -> None:
    known = serve().access
    with pytest.raises(PortTaken, match=rf"another process has port {known.port} of 127\.0\.0\.1"):
        Endpoint(environment)


def test_the_service_ends_with_one_line_when_its_port_is_taken(environment: Path) -> None:
    with socket.socket() as other:
        other.bind((access.ADDRESS, 0))
        other.listen()
        port = other.getsockname()[1]
        access.save(environment, access.Access(port=port, credentials=access.new_credentials()))
        argv = [
            sys.executable,
            "-m",
            "slicewright.rehearsal.clouds",
            "--environment",
            str(environment),
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 1
    assert f"another process has port {port}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (environment / "cloud.sock").exists()


def test_the_file_of_an_environment_is_read_whole_or_not_at_all(environment: Path) -> None:
    written = access.Access(port=20001, credentials=access.new_credentials())
    access.save(environment, written)
    changed = replace(written, port=20002)
    access.save(environment, changed)
    assert access.load(environment) == changed
    assert json.loads((environment / access.FILE).read_text())["port"] == 20002
    left = {p.name for p in environment.iterdir() if p.is_file()}
    assert left == {access.FILE, access.FILE_OF_GCLOUD, access.CREDENTIAL_FILE}


def test_access_is_absent_before_the_first_start(environment: Path) -> None:
    assert access.load(environment) is None


@pytest.mark.usefixtures("clouds_over_http")
def test_it_starts_with_the_service(environment: Path) -> None:
    start: Start
    with services(environment) as start:
        start()
        found = access.load(environment)
        assert found is not None
        connection = http.client.HTTPConnection(access.ADDRESS, found.port, timeout=120)
        connection.request("GET", "/nothing")
        assert connection.getresponse().status == 404
