"""Both cloud providers as launched executables over gRPC."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from tests.rehearsal.plugins.bridge.engine import cloud_in

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
NETWORK = "urn:pulumi:dev::p::gcp:compute/network:Network::net"
SUBNETWORK = "urn:pulumi:dev::p::gcp:compute/subnetwork:Subnetwork::sub"


def kind_of(urn: str) -> str:
    return urn.split("::")[2]


def struct(**values: Any) -> struct_pb2.Struct:
    found = struct_pb2.Struct()
    found.update(values)
    return found


@pytest.fixture
def environment(clouds_over_http: None, tmp_path: Path) -> Iterator[Path]:
    with cloud_in(tmp_path):
        yield tmp_path


class Launched:
    """A provider's process, and the engine's side of its connection."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.stub = provider_pb2_grpc.ResourceProviderStub(
            grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}")
        )

    def configure(self, **args: Any) -> None:
        self.stub.Configure(provider_pb2.ConfigureRequest(args=struct(**args), variables={}))


Launch = Callable[..., Launched]


@pytest.fixture
def launch(environment: Path) -> Iterator[Launch]:
    running: list[subprocess.Popen[str]] = []

    def go(package: str, *, inside: bool = True) -> Launched:
        env = {k: v for k, v in os.environ.items() if k != "SLICEWRIGHT_REHEARSAL"}
        if inside:
            env["SLICEWRIGHT_REHEARSAL"] = str(environment)
        argv = [
            sys.executable,
            "-m",
            f"slicewright.rehearsal.plugins.providers.{package}",
            "127.0.0.1:1",
        ]
        process = subprocess.Popen(
            argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        running.append(process)
        return Launched(process)

    yield go
    for process in running:
        process.kill()
        process.wait()


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return str(caught.value.details())


@pytest.mark.parametrize(("package", "version"), [("gcp", "10.2.0"), ("aws", "7.51.1")])
def test_it_has_the_version_that_the_sdk_asks_for(
    launch: Launch, package: str, version: str
) -> None:
    """With a lower one the engine warns at every run."""
    assert launch(package).stub.GetPluginInfo(empty_pb2.Empty()).version == version


def test_a_resources_lifecycle_over_grpc(launch: Launch, environment: Path) -> None:
    stub = (gcp := launch("gcp")).stub
    gcp.configure(project="acme", region="us-central1")
    checked = stub.Check(
        provider_pb2.CheckRequest(
            urn=NETWORK, type=kind_of(NETWORK), name="net", news=struct(), randomSeed=b"seed"
        )
    )
    assert not checked.failures
    created = stub.Create(
        provider_pb2.CreateRequest(urn=NETWORK, type=kind_of(NETWORK), properties=checked.inputs)
    )
    name = checked.inputs["name"]
    assert created.id == f"projects/acme/global/networks/{name}"
    assert (environment / "cloud" / "compute" / "networks").exists()
    read = stub.Read(
        provider_pb2.ReadRequest(
            id=created.id,
            urn=NETWORK,
            type=kind_of(NETWORK),
            properties=created.properties,
            inputs=checked.inputs,
        )
    )
    assert dict(read.inputs) == dict(checked.inputs)
    stub.Delete(
        provider_pb2.DeleteRequest(
            id=created.id,
            urn=NETWORK,
            type=kind_of(NETWORK),
            properties=created.properties,
            old_inputs=checked.inputs,
        )
    )
    gone = stub.Read(
        provider_pb2.ReadRequest(
            id=created.id,
            urn=NETWORK,
            type=kind_of(NETWORK),
            properties=created.properties,
            inputs=checked.inputs,
        )
    )
    assert gone.id == ""


def test_a_network_not_known_yet_replaces_its_subnetwork(launch: Launch) -> None:
    (gcp := launch("gcp")).configure(project="acme", region="us-central1")
    old = struct(name="sub", network="net", ipCidrRange="10.0.0.0/20")
    new = struct(name="sub", network=UNKNOWN, ipCidrRange="10.0.0.0/20")
    found = gcp.stub.Diff(
        provider_pb2.DiffRequest(
            id="x", urn=SUBNETWORK, type=kind_of(SUBNETWORK), olds=old, old_inputs=old, news=new
        )
    )
    assert found.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert found.detailedDiff["network"].kind == provider_pb2.PropertyDiff.UPDATE_REPLACE
    assert found.deleteBeforeReplace


def test_a_refused_input_arrives_with_its_path(launch: Launch) -> None:
    (gcp := launch("gcp")).configure(project="acme")
    found = gcp.stub.Check(
        provider_pb2.CheckRequest(
            urn=SUBNETWORK,
            type=kind_of(SUBNETWORK),
            name="s",
            news=struct(network="n", ipCidr="10.0.0.0/20"),
            randomSeed=b"s",
        )
    )
    assert [(f.property, "did you mean ipCidrRange?" in f.reason) for f in found.failures] == [
        ("ipCidr", True)
    ]


def test_the_clouds_error_arrives_as_one_message(launch: Launch) -> None:
    (gcp := launch("gcp")).configure(project="acme", region="us-central1")
    properties = struct(name="sub", network="nowhere", ipCidrRange="10.0.0.0/20")
    message = refusal(
        lambda: gcp.stub.Create(
            provider_pb2.CreateRequest(
                urn=SUBNETWORK, type=kind_of(SUBNETWORK), properties=properties
            )
        )
    )
    assert (
        "The referenced network resource 'projects/acme/global/networks/nowhere' cannot be found."
        in message
    )
    assert "Traceback" not in message


def test_an_unknown_type_arrives_as_one_message(launch: Launch) -> None:
    (aws := launch("aws")).configure(region="eu-west-1")
    urn = "urn:pulumi:dev::p::aws:s3/bucket:Bucket::b"
    message = refusal(
        lambda: aws.stub.Check(
            provider_pb2.CheckRequest(
                urn=urn, type=kind_of(urn), name="b", news=struct(), randomSeed=b"s"
            )
        )
    )
    assert "the rehearsal's aws provider does not simulate aws:s3/bucket:Bucket" in message


@pytest.mark.parametrize("package", ["gcp", "aws"])
def test_outside_a_rehearsal_configure_fails(launch: Launch, package: str) -> None:
    provider = launch(package, inside=False)
    assert "only inside a rehearsal environment" in refusal(
        lambda: provider.configure(project="acme", region="eu-west-1")
    )


@pytest.mark.parametrize("package", ["gcp", "aws"])
def test_it_exits_on_the_engines_interrupt(launch: Launch, package: str) -> None:
    """Otherwise the engine waits five seconds at the end of every operation."""
    provider = launch(package)
    provider.stub.GetPluginInfo(empty_pb2.Empty())
    provider.process.send_signal(signal.SIGINT)
    # A process that ignores the signal never exits.
    assert provider.process.wait(30) == 0
