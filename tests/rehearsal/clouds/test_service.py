"""The service: its socket, injected faults, what it refuses, and restarts after a kill."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewright.rehearsal.clouds.core.client import CloudClient, CloudUnreachable
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from slicewright.rehearsal.clouds.core.store import Kind, Store
from slicewright.rehearsal.clouds.server import AlreadyServed, Server
from slicewright.rehearsal.clouds.service import Cloud
from tests.rehearsal.clouds.services import Start, google, services

NETWORK = {"name": "net", "autoCreateSubnetworks": False}


@pytest.fixture
def start(clouds_over_http: None, environment: Path) -> Iterator[Start]:
    with services(environment) as start:
        yield start


def test_calls_are_answered_or_refused_over_http(start: Start, environment: Path) -> None:
    start()
    client = google(environment)
    client.call("compute", "networks.insert", {"project": "acme"}, NETWORK)
    assert CloudClient(environment).inventory() == {"compute.network": ["acme/net"]}
    with pytest.raises(CloudError) as caught:
        client.call("compute", "networks.insert", {"project": "acme"}, NETWORK)
    assert (caught.value.code, caught.value.reason) == (409, "ALREADY_EXISTS")


def test_only_this_user_can_open_the_socket(start: Start, environment: Path) -> None:
    start()
    assert stat.S_IMODE((environment / "cloud.sock").stat().st_mode) == 0o600


def test_sigterm_ends_it_at_once_and_removes_the_socket(start: Start, environment: Path) -> None:
    process = start()
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert not (environment / "cloud.sock").exists()


def test_a_second_service_for_one_environment_is_refused(start: Start, environment: Path) -> None:
    start()
    argv = [
        sys.executable,
        "-m",
        "slicewright.rehearsal.clouds",
        "--environment",
        str(environment),
        "--fake-control-planes",
    ]
    second = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)
    assert second.returncode == 1
    assert "already serves this environment" in second.stderr
    assert CloudClient(environment).is_up()


def test_a_missing_environment_is_one_line_of_error(tmp_path: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "slicewright.rehearsal.clouds",
        "--environment",
        str(tmp_path / "no"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_work_interrupted_by_a_kill_is_finished_after_the_restart(
    start: Start, environment: Path
) -> None:
    (environment / "cloud").mkdir(exist_ok=True)
    (environment / "cloud" / "delays.json").write_text(
        json.dumps({"container.clusters.create": 600})
    )
    process = start()
    client = google(environment)
    client.call("compute", "networks.insert", {"project": "acme"}, NETWORK)
    where = {"project": "acme", "region": "us-central1"}
    subnetwork = {
        "name": "sub",
        "network": "projects/acme/global/networks/net",
        "ipCidrRange": "10.0.0.0/20",
    }
    client.call("compute", "subnetworks.insert", where, subnetwork)
    parent = "projects/acme/locations/us-central1"
    cluster = {"name": "main", "initialNodeCount": 1, "network": "net"}
    operation = client.call(
        "container", "projects.locations.clusters.create", {"parent": parent}, {"cluster": cluster}
    )
    process.kill()
    process.wait()
    assert not CloudClient(environment).is_up()
    (environment / "cloud" / "delays.json").unlink()
    start()
    deadline = time.monotonic() + 180
    name = {"name": f"{parent}/operations/{operation['name']}"}
    while client.call("container", "projects.locations.operations.get", name)["status"] != "DONE":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    found = client.call(
        "container", "projects.locations.clusters.get", {"name": f"{parent}/clusters/main"}
    )
    assert found["status"] == "RUNNING"
    assert found["currentNodeCount"] == 3


def test_the_client_says_that_no_service_runs(environment: Path) -> None:
    with pytest.raises(CloudUnreachable, match="is the rehearsal running"):
        CloudClient(environment).inventory()


def test_a_socket_path_longer_than_the_kernels_limit_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    server = Server(deep / "cloud.sock", Cloud(deep, FakeControlPlanes(deep)))
    try:
        import threading

        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        assert CloudClient(deep).inventory() == {}
        with pytest.raises(AlreadyServed):
            Server(deep / "cloud.sock", Cloud(deep, FakeControlPlanes(deep)))
    finally:
        server.shutdown()
        server.server_close()


def test_an_injected_error_occurs_as_often_as_it_says(cloud: Cloud, environment: Path) -> None:
    fault = {
        "fault": "api-error",
        "method": "compute.networks.insert",
        "code": 429,
        "message": "slow down",
        "times": 2,
    }
    (environment / "faults.json").write_text(json.dumps([fault]))
    for _ in range(2):
        with pytest.raises(CloudError) as caught:
            cloud.call("compute", "networks.insert", {"project": "acme"}, dict(NETWORK))
        assert (caught.value.code, caught.value.reason, caught.value.message) == (
            429,
            "RESOURCE_EXHAUSTED",
            "slow down",
        )
    cloud.call("compute", "networks.insert", {"project": "acme"}, dict(NETWORK))


def test_an_error_injected_into_aws_has_awss_name(cloud: Cloud, environment: Path) -> None:
    fault = {
        "fault": "api-error",
        "method": "CreateVpc",
        "code": 429,
        "message": "Rate exceeded",
        "times": 1,
    }
    (environment / "faults.json").write_text(json.dumps([fault]))
    with pytest.raises(CloudError) as caught:
        cloud.call("ec2", "CreateVpc", {"region": "eu-west-1"}, {"CidrBlock": "10.0.0.0/16"})
    assert caught.value.reason == "ThrottlingException"


def test_a_fault_file_with_problems_refuses_every_call(cloud: Cloud, environment: Path) -> None:
    (environment / "faults.json").write_text('[{"fault": "stokout"}, {"fault": "stock-out"}]')
    with pytest.raises(CloudError) as caught:
        cloud.call("compute", "networks.insert", {"project": "acme"}, dict(NETWORK))
    assert caught.value.reason == "FAULT_FILE"
    assert [line[:22] for line in caught.value.message.splitlines()] == [
        "faults.json: fault 1 i",
        "faults.json: fault 2 (",
    ]
    assert cloud.inventory() == {}


def test_a_fault_of_a_call_that_no_cloud_has_is_refused(cloud: Cloud, environment: Path) -> None:
    fault = {"fault": "throttling", "method": "eks.CreateNodeGroup"}
    (environment / "faults.json").write_text(json.dumps([fault]))
    with pytest.raises(CloudError, match=r"have no call 'eks\.CreateNodeGroup'"):
        cloud.call("compute", "networks.insert", {"project": "acme"}, dict(NETWORK))


def test_a_fault_of_a_quota_that_no_cloud_has_is_refused(cloud: Cloud, environment: Path) -> None:
    fault = {"fault": "quota", "quota": "L-417A185A"}
    (environment / "faults.json").write_text(json.dumps([fault]))
    with pytest.raises(CloudError, match=r"have no quota 'L-417A185A'; they have .*L-417A185B"):
        cloud.call("sts", "GetCallerIdentity", {"region": "eu-west-1"}, {})


@pytest.mark.parametrize(
    ("service", "method", "params", "reason", "code"),
    [
        ("compute", "networks.insert", {"project": "acme"}, "RESOURCE_EXHAUSTED", 429),
        ("eks", "ListClusters", {"region": "eu-west-1"}, "ThrottlingException", 429),
        ("ec2", "DescribeVpcs", {"region": "eu-west-1"}, "RequestLimitExceeded", 503),
    ],
)
def test_throttling_is_in_the_services_own_words(
    cloud: Cloud, environment: Path, service: str, method: str, params: dict, reason: str, code: int
) -> None:
    fault = {"fault": "throttling", "method": f"{service}.{method}", "times": 1}
    (environment / "faults.json").write_text(json.dumps([fault]))
    body = dict(NETWORK) if service == "compute" else {}
    with pytest.raises(CloudError) as caught:
        cloud.call(service, method, params, body)
    assert (caught.value.reason, caught.value.code) == (reason, code)
    cloud.call(service, method, params, body)


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_connection_breaks_before_or_after_the_call_was_carried_out(
    start: Start, environment: Path, carried_out: bool
) -> None:
    fault = {"fault": "connection-reset", "method": "networks.insert", "times": 1}
    (environment / "faults.json").write_text(json.dumps([fault | {"carried_out": carried_out}]))
    start()
    with pytest.raises(CloudError) as caught:
        google(environment).call("compute", "networks.insert", {"project": "acme"}, NETWORK)
    assert "Remote end closed connection without response" in caught.value.message
    assert CloudClient(environment).inventory() == (
        {"compute.network": ["acme/net"]} if carried_out else {}
    )


def test_a_method_that_is_not_simulated_is_refused_with_501(cloud: Cloud) -> None:
    with pytest.raises(
        CloudError,
        match=r"does not simulate container projects\.locations\.clusters\.completeIpRotation",
    ) as caught:
        cloud.call(
            "container",
            "projects.locations.clusters.completeIpRotation",
            {"name": "projects/p/locations/l/clusters/c"},
            {},
        )
    assert caught.value.code == 501


def test_the_refusal_of_an_unknown_service_names_the_known_ones(cloud: Cloud) -> None:
    with pytest.raises(CloudError, match=r"no service 's3'; it has aws-iam, .*compute, container"):
        cloud.call("s3", "ListBuckets", {}, {})


def test_a_half_written_record_is_never_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    kind = Kind[dict]("k")
    store.put(kind, "a/b", {"x": 1})
    (tmp_path / "k" / ".torn.json").write_text('{"x":')
    assert list(store.items(kind)) == [("a/b", {"x": 1})]


def test_the_api_models_are_read_when_first_needed(
    start: Start, environment: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Reading them at the start would delay it by seconds."""
    monkeypatch.setenv("PYTHONVERBOSE", "1")
    start()
    log = tmp_path / "service.log"
    assert "import 'botocore" not in log.read_text()
    assert "import 'googleapiclient" not in log.read_text()
    google(environment).call("compute", "networks.insert", {"project": "acme"}, NETWORK)
    assert "import 'googleapiclient'" in log.read_text()


def test_a_call_to_aws_needs_a_region(cloud) -> None:
    with pytest.raises(CloudError, match="region"):
        cloud.call("eks", "ListClusters", {}, {})


def test_a_cluster_name_is_unique_across_both_clouds(gcp, aws) -> None:
    gcp.network()
    cluster = {"name": "p4d", "initialNodeCount": 1, "network": "net"}
    parent = {"parent": gcp.parent}
    gcp.wait(gcp.call("container", "projects.locations.clusters.create", parent, cluster=cluster))
    with pytest.raises(CloudError, match="one name per environment") as caught:
        aws.make_cluster()
    assert caught.value.reason == "ResourceInUseException"
