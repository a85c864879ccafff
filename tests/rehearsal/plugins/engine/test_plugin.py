"""A launched plugin process, and an attached plugin."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2

from slicewright.rehearsal.plugins.engine.plugin import Checked, Created, Difference, ProviderPlugin
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, Properties, decode, encode
from slicewright.rehearsal.plugins.engine.protocol import (
    engine_pb2_grpc,
    provider_pb2,
    provider_pb2_grpc,
)
from slicewright.rehearsal.plugins.engine.provider_server import AttachedServer
from slicewright.rehearsal.plugins.engine.requests import (
    Autonaming,
    CheckConfigRequest,
    CheckRequest,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DiffConfigRequest,
    DiffRequest,
    InvokeRequest,
    ReadRequest,
    UpdateRequest,
)

PLUGIN = textwrap.dedent("""
    from slicewright.rehearsal.plugins.engine.plugin import *
    from slicewright.rehearsal.plugins.engine.properties import UNKNOWN
    from slicewright.rehearsal.plugins.engine.provider_server import serve

    class Sample(ProviderPlugin):
        version = "9.8.7"

        def configure(self, request):
            self.region = request.inputs.get("region")
        def check(self, request):
            bad = [CheckFailure("a.b", "is wrong")] if request.name == "bad" else []
            return Checked(request.new_inputs, bad)
        def diff(self, request):
            return Difference(changes=True, detailed={"a": "update", "b": "add-replace",
                "c": "delete"}, replaces=["b"],
                              delete_before_replace=True, input_paths=frozenset({"c"}))
        def create(self, request):
            name, preview = request.name, request.preview
            if name == "fails":
                raise ProviderError("no such machine type")
            if name == "half":
                raise InitFailed(id="id-1", outputs={"a": 1},
                                 reasons=["not ready", "still pulling"])
            if name == "bug":
                return {}["missing"]
            if name == "waits":
                self.log(Severity.INFO, "waiting", request.urn)
                assert self.cancelled.wait(3600)
                raise ProviderError("context canceled")
            self.log(Severity.INFO, "making " + name, request.urn, ephemeral=True)
            return Created("" if preview else "id-1", {**request.inputs, "region": self.region,
                "ip": UNKNOWN if preview else "10.0.0.1"})
        def read(self, request):
            return None
        def update(self, request):
            return {}
        def delete(self, request):
            pass

    if __name__ == "__main__":
        serve(Sample)
""")


class Engine(engine_pb2_grpc.EngineServicer):
    def __init__(self) -> None:
        self.said: list[Any] = []
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        engine_pb2_grpc.add_EngineServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's word
        self.said.append((request.severity, request.message, request.urn, request.ephemeral))
        return empty_pb2.Empty()

    def until_said(self, text: str) -> None:
        deadline = time.monotonic() + 180
        while text not in [message for _, message, _, _ in self.said]:
            assert time.monotonic() < deadline, self.said
            time.sleep(0.01)


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.server.stop(None)


@pytest.fixture
def launch(
    tmp_path: Path, engine: Engine
) -> Iterator[Callable[[], tuple[subprocess.Popen[str], Any]]]:
    (tmp_path / "sample.py").write_text(PLUGIN)
    started: list[subprocess.Popen[str]] = []

    def start() -> tuple[subprocess.Popen[str], Any]:
        argv = [sys.executable, str(tmp_path / "sample.py"), "--logtostderr", engine.address]
        process = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path.cwd(),
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )
        started.append(process)
        assert process.stdout is not None
        port = int(process.stdout.readline())
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        stub.Configure(provider_pb2.ConfigureRequest(args=encode({"region": "r1"})))
        return process, stub

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _create(stub: Any, name: str, **more: Any) -> Any:
    return stub.Create(
        provider_pb2.CreateRequest(
            urn=f"urn::{name}", type="t", name=name, properties=encode({"x": 1}), **more
        )
    )


def test_a_launched_plugin_answers_and_logs_to_the_engine(launch: Any, engine: Engine) -> None:
    _, stub = launch()
    made = _create(stub, "fine")
    assert (made.id, decode(made.properties)) == (
        "id-1",
        {"x": 1, "region": "r1", "ip": "10.0.0.1"},
    )
    assert engine.said == [(1, "making fine", "urn::fine", True)]
    assert stub.GetPluginInfo(empty_pb2.Empty()).version == "9.8.7"
    assert decode(_create(stub, "fine", preview=True).properties)["ip"] is UNKNOWN


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_immediately_even_while_an_operation_waits(
    launch: Any, engine: Engine, number: signal.Signals
) -> None:
    process, stub = launch()
    waiting = stub.Create.future(provider_pb2.CreateRequest(urn="u", name="waits"))
    engine.until_said("waiting")
    process.send_signal(number)
    # The operation itself would go on for an hour.
    assert process.wait(180) == 0
    waiting.cancel()


def test_it_ends_when_the_process_that_started_it_is_gone(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "sample.py").write_text(PLUGIN)
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "p = subprocess.Popen([sys.executable, sys.argv[1], sys.argv[2]], "
            "stdout=subprocess.PIPE, text=True)\n"
            "p.stdout.readline(); print(p.pid, flush=True); time.sleep(3600)",
            str(tmp_path / "sample.py"),
            engine.address,
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert parent.stdout is not None
    plugin = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 180
    while _runs(plugin):
        assert time.monotonic() < deadline, "the plugin outlived its engine"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_started_by_hand_it_explains_itself(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(PLUGIN)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "sample.py")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("this is a plugin of the Pulumi engine")


@pytest.fixture
def attached(engine: Engine) -> Iterator[Callable[[], Any]]:
    space: dict[str, Any] = {"__name__": "sample"}
    exec(compile(PLUGIN, "sample.py", "exec"), space)
    channels = []
    with AttachedServer(space["Sample"]) as server:

        def connect() -> Any:
            channel = grpc.insecure_channel(
                f"127.0.0.1:{server.port}", options=[("grpc.use_local_subchannel_pool", 1)]
            )
            channels.append(channel)
            return provider_pb2_grpc.ResourceProviderStub(channel)

        yield connect
        for channel in channels:
            channel.close()


def test_each_connection_of_an_attached_plugin_has_its_own_configuration(attached: Any) -> None:
    first, second = attached(), attached()
    first.Configure(provider_pb2.ConfigureRequest(args=encode({"region": "one"})))
    second.Configure(provider_pb2.ConfigureRequest(args=encode({"region": "two"})))
    assert decode(_create(first, "a").properties)["region"] == "one"
    assert decode(_create(second, "a").properties)["region"] == "two"


def test_handshake_sets_where_an_attached_plugin_logs(attached: Any, engine: Engine) -> None:
    stub = attached()
    stub.Configure(provider_pb2.ConfigureRequest())
    answer = stub.Handshake(provider_pb2.ProviderHandshakeRequest(engine_address=engine.address))
    assert (answer.accept_secrets, answer.accept_outputs) == (True, False)
    _create(stub, "a")
    assert [message for _, message, _, _ in engine.said] == ["making a"]


def _refused(stub: Any, name: str) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        _create(stub, name)
    return caught.value


def test_a_provider_error_has_a_code_that_means_state_is_known(attached: Any) -> None:
    stub = attached()
    stub.Configure(provider_pb2.ConfigureRequest())
    error = _refused(stub, "fails")
    assert error.details() == "no such machine type"
    assert error.code() not in (
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.DATA_LOSS,
    )


def test_a_bug_is_one_line_and_its_traceback_goes_to_the_debug_log(
    attached: Any, engine: Engine
) -> None:
    stub = attached()
    stub.Handshake(provider_pb2.ProviderHandshakeRequest(engine_address=engine.address))
    stub.Configure(provider_pb2.ConfigureRequest())
    error = _refused(stub, "bug")
    assert error.details().startswith("a bug in sample: KeyError: 'missing'")
    assert "\n" not in error.details()
    assert [(severity, "Traceback" in text) for severity, text, _, _ in engine.said] == [(0, True)]


def test_a_partial_failure_carries_what_must_be_stored(attached: Any) -> None:
    stub = attached()
    stub.Configure(provider_pb2.ConfigureRequest())
    error = _refused(stub, "half")
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    assert b"pulumirpc.ErrorResourceInitFailed" in details
    expected = provider_pb2.ErrorResourceInitFailed(
        id="id-1", properties=encode({"a": 1}), reasons=["not ready", "still pulling"]
    )
    assert expected.SerializeToString() in details


def test_cancel_ends_operations_in_flight_and_no_later_ones(attached: Any, engine: Engine) -> None:
    stub = attached()
    stub.Handshake(provider_pb2.ProviderHandshakeRequest(engine_address=engine.address))
    stub.Configure(provider_pb2.ConfigureRequest(args=encode({"region": "r"})))
    waiting = stub.Create.future(provider_pb2.CreateRequest(urn="u", name="waits"))
    engine.until_said("waiting")
    stub.Cancel(empty_pb2.Empty())
    with pytest.raises(grpc.RpcError, match="context canceled"):
        waiting.result(180)
    again = stub.Create.future(provider_pb2.CreateRequest(urn="u", name="waits"))
    with pytest.raises(grpc.FutureTimeoutError):
        again.result(0.2)
    stub.Cancel(empty_pb2.Empty())
    assert decode(_create(stub, "a").properties)["region"] == "r"


def test_check_failures_and_detailed_differences_reach_the_engine(attached: Any) -> None:
    stub = attached()
    checked = stub.Check(provider_pb2.CheckRequest(name="bad", news=encode({"a": 1})))
    assert [(failure.property, failure.reason) for failure in checked.failures] == [
        ("a.b", "is wrong")
    ]
    found = stub.Diff(provider_pb2.DiffRequest())
    kinds = {
        path: (provider_pb2.PropertyDiff.Kind.Name(diff.kind), diff.inputDiff)
        for path, diff in found.detailedDiff.items()
    }
    assert kinds == {"a": ("UPDATE", False), "b": ("ADD_REPLACE", False), "c": ("DELETE", True)}
    assert (list(found.replaces), found.deleteBeforeReplace, found.hasDetailedDiff) == (
        ["b"],
        True,
        True,
    )


def test_a_message_beyond_grpcs_default_limit_passes(engine: Engine) -> None:
    space: dict[str, Any] = {"__name__": "sample"}
    exec(compile(PLUGIN, "sample.py", "exec"), space)
    with AttachedServer(space["Sample"]) as server:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(f"127.0.0.1:{server.port}", options=options) as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            checked = stub.Check(
                provider_pb2.CheckRequest(name="a", news=encode({"text": "x" * 6_000_000}))
            )
    assert len(decode(checked.inputs)["text"]) == 6_000_000


def test_the_stubs_load_without_the_sdk_and_do_not_replace_it() -> None:
    program = (
        "import sys, slicewright.rehearsal.plugins.engine.protocol as p; "
        "assert 'pulumi' not in sys.modules; "
        "import pulumi; from pulumi.runtime.proto import provider_pb2; assert provider_pb2 "
        "is p.provider_pb2; "
        "assert hasattr(pulumi, 'CustomResource')"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=180)


class Recorder(ProviderPlugin):
    """Records its requests."""

    def __init__(self, requests: list[object]) -> None:
        super().__init__()
        self._requests = requests

    def check_config(self, request: CheckConfigRequest) -> Checked:
        self._requests.append(request)
        return Checked({})

    def diff_config(self, request: DiffConfigRequest) -> Difference:
        self._requests.append(request)
        return Difference(changes=None)

    def configure(self, request: ConfigureRequest) -> None:
        self._requests.append(request)

    def check(self, request: CheckRequest) -> Checked:
        self._requests.append(request)
        return Checked({})

    def diff(self, request: DiffRequest) -> Difference:
        self._requests.append(request)
        return Difference(changes=None)

    def create(self, request: CreateRequest) -> Created:
        self._requests.append(request)
        return Created("", {})

    def read(self, request: ReadRequest) -> None:
        self._requests.append(request)

    def update(self, request: UpdateRequest) -> Properties:
        self._requests.append(request)
        return {}

    def delete(self, request: DeleteRequest) -> None:
        self._requests.append(request)

    def invoke(self, request: InvokeRequest) -> Properties:
        self._requests.append(request)
        return {}


def test_every_request_arrives_with_each_value_in_its_field() -> None:
    requests: list[object] = []
    old, live, new = {"is": "old inputs"}, {"is": "old outputs"}, {"is": "new inputs"}
    resource = {"urn": "u", "type": "t", "id": "i"}
    naming = provider_pb2.CheckRequest.AutonamingOptions(proposed_name="n-1", mode="ENFORCE")
    before = {"olds": encode(live), "old_inputs": encode(old), "news": encode(new)}
    with (
        AttachedServer(lambda: Recorder(requests)) as server,
        grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        stub.CheckConfig(provider_pb2.CheckRequest(urn="u", olds=encode(old), news=encode(new)))
        stub.DiffConfig(provider_pb2.DiffRequest(urn="u", **before))
        stub.Configure(provider_pb2.ConfigureRequest(variables={"k": "v"}, args=encode(new)))
        stub.Check(
            provider_pb2.CheckRequest(
                urn="u",
                type="t",
                name="n",
                olds=encode(old),
                news=encode(new),
                randomSeed=b"s",
                autonaming=naming,
            )
        )
        stub.Diff(provider_pb2.DiffRequest(**resource, **before))
        stub.Create(
            provider_pb2.CreateRequest(
                urn="u", type="t", name="n", properties=encode(new), timeout=2, preview=True
            )
        )
        stub.Read(
            provider_pb2.ReadRequest(
                **resource, properties=encode(live), inputs=encode(old), timeout=3
            )
        )
        stub.Update(
            provider_pb2.UpdateRequest(
                **resource, **before, timeout=4, preview=True, ignoreChanges=["a.b"]
            )
        )
        stub.Delete(
            provider_pb2.DeleteRequest(
                **resource, properties=encode(live), old_inputs=encode(old), timeout=5
            )
        )
        stub.Invoke(provider_pb2.InvokeRequest(tok="f", args=encode(new), preview=True))
    states = {"old_inputs": old, "old_outputs": live, "new_inputs": new}
    assert requests == [
        CheckConfigRequest(urn="u", old_inputs=old, new_inputs=new),
        DiffConfigRequest(urn="u", **states),
        ConfigureRequest(variables={"k": "v"}, inputs=new),
        CheckRequest(
            urn="u",
            type="t",
            name="n",
            old_inputs=old,
            new_inputs=new,
            random_seed=b"s",
            autonaming=Autonaming("n-1", "enforce"),
        ),
        DiffRequest(urn="u", type="t", id="i", **states),
        CreateRequest(urn="u", type="t", name="n", inputs=new, timeout_s=2, preview=True),
        ReadRequest(urn="u", type="t", id="i", inputs=old, outputs=live, timeout_s=3),
        UpdateRequest(
            urn="u", type="t", id="i", **states, timeout_s=4, preview=True, ignored=("a.b",)
        ),
        DeleteRequest(urn="u", type="t", id="i", inputs=old, outputs=live, timeout_s=5),
        InvokeRequest(token="f", args=new, preview=True),
    ]
