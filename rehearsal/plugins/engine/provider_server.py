"""The gRPC side of a provider plugin, either launched by the engine or attached to by it."""

# ruff: noqa: N802 - the methods' names are the protocol's

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2, empty_pb2

from slicewright.rehearsal.plugins.engine.grpc_server import (
    CHANNEL_OPTIONS,
    new_server,
    serve_until_stopped,
)
from slicewright.rehearsal.plugins.engine.plugin import (
    Checked,
    Difference,
    InitFailed,
    ProviderError,
    ProviderPlugin,
    Severity,
)
from slicewright.rehearsal.plugins.engine.properties import decode, encode
from slicewright.rehearsal.plugins.engine.protocol import (
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
)
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


def serve(make: Callable[[], ProviderPlugin]) -> NoReturn:
    """Serves a launched plugin until SIGINT, SIGTERM or the engine's end.

    make: the plugin class, or anything that makes a new plugin object. The engine passes its own
    address as the last argument, and reads the plugin's port from its output.
    """
    if len(sys.argv) < 2:
        sys.exit(
            "this is a plugin of the Pulumi engine: do not start it by hand, run `pulumi`, which "
            "starts it with the engine's address as the last argument"
        )
    serve_until_stopped(
        lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(
            _Servicer(make, sys.argv[-1]), server
        )
    )


class AttachedServer:
    """A plugin in this process, for PULUMI_DEBUG_PROVIDERS=name:port. A context manager."""

    def __init__(self, make: Callable[[], ProviderPlugin]) -> None:
        self._server = new_server()
        self._servicer = _Servicer(make, "")
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(self._servicer, self._server)
        self.port: int = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def stop(self) -> None:
        """Aborts all calls and closes the port."""
        self._server.stop(grace=None).wait()
        self._servicer.close()

    def __enter__(self) -> AttachedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Connection:
    """One plugin object, and the engine that its log lines go to."""

    def __init__(self, plugin: ProviderPlugin, engine_address: str) -> None:
        self.plugin = plugin
        self._engine_address = ""
        self._channel: grpc.Channel | None = None
        self._stub: Any = None
        self._lock = threading.Lock()
        self.attach(engine_address)
        plugin.log_to(self._log)

    def attach(self, engine_address: str) -> None:
        with self._lock:
            if engine_address and engine_address != self._engine_address:
                self._engine_address = engine_address
                self._channel = grpc.insecure_channel(engine_address, options=CHANNEL_OPTIONS)
                self._stub = engine_pb2_grpc.EngineStub(self._channel)

    def close(self) -> None:
        """Nothing is logged any more. gRPC keeps the sockets of a channel that is not closed."""
        with self._lock:
            if self._channel is not None:
                self._channel.close()
            self._channel = self._stub = None

    def _log(self, severity: Severity, message: str, urn: str, ephemeral: bool) -> None:
        if self._stub is None:
            return
        request = engine_pb2.LogRequest(
            severity=int(severity), message=message, urn=urn, ephemeral=ephemeral
        )
        try:
            self._stub.Log(request, timeout=5)
        except grpc.RpcError:
            pass  # the engine is shutting down; the operation's own answer shows it


class _Servicer(provider_pb2_grpc.ResourceProviderServicer):  # type: ignore[misc]
    def __init__(self, make: Callable[[], ProviderPlugin], engine_address: str) -> None:
        self._make = make
        self._engine_address = engine_address
        self._connections: dict[str, _Connection] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            for connection in self._connections.values():
                connection.close()

    def _connection(self, context: Any) -> _Connection:
        # A launched plugin is one provider, however often the engine reconnects; of an attached one
        # each peer is a provider.
        peer = "" if self._engine_address else context.peer()
        with self._lock:
            if peer not in self._connections:
                self._connections[peer] = _Connection(self._make(), self._engine_address)
            return self._connections[peer]

    @contextmanager
    def _plugin(self, context: Any) -> Iterator[ProviderPlugin]:
        plugin = self._connection(context).plugin
        try:
            yield plugin
        except ProviderError as e:
            # Not UNKNOWN, INTERNAL or DATA_LOSS: by those the engine takes the resource's state to
            # be unknown.
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(e))
        except InitFailed as e:
            detail = provider_pb2.ErrorResourceInitFailed(
                id=e.id, properties=encode(e.outputs), reasons=e.reasons
            )
            if e.inputs is not None:
                detail.inputs.CopyFrom(encode(e.inputs))
            context.set_trailing_metadata((("grpc-status-details-bin", _status(str(e), detail)),))
            context.abort(grpc.StatusCode.UNKNOWN, str(e))
        except Exception as e:  # noqa: BLE001 - one line for the user, a traceback in the log
            plugin.log(Severity.DEBUG, traceback.format_exc())
            traceback.print_exc()
            name = type(plugin).__module__
            context.abort(
                grpc.StatusCode.INTERNAL,
                f"a bug in {name}: {type(e).__name__}: {e} (run pulumi --debug for the traceback)",
            )

    # The plugin itself.

    def Handshake(self, request: Any, context: Any) -> Any:
        self._connection(context).attach(request.engine_address)
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True,
            accept_resources=True,
            accept_outputs=False,
            supports_autonaming_configuration=True,
        )

    def Attach(self, request: Any, context: Any) -> Any:
        self._connection(context).attach(request.address)
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=self._connection(context).plugin.version)

    def GetSchema(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetSchemaResponse(schema="{}")

    def Cancel(self, request: Any, context: Any) -> Any:
        plugin = self._connection(context).plugin
        # Every ordinary operation ends with a Cancel too, so later ones need a new event.
        in_flight, plugin.cancelled = plugin.cancelled, threading.Event()
        in_flight.set()
        return empty_pb2.Empty()

    # The provider's own configuration.

    def CheckConfig(self, request: Any, context: Any) -> Any:
        with self._plugin(context) as plugin:
            check = CheckConfigRequest(
                urn=request.urn,
                old_inputs=decode(request.olds),
                new_inputs=decode(request.news),
            )
            return _check_response(plugin.check_config(check))

    def DiffConfig(self, request: Any, context: Any) -> Any:
        with self._plugin(context) as plugin:
            diff = DiffConfigRequest(
                urn=request.urn,
                old_inputs=decode(request.old_inputs),
                old_outputs=decode(request.olds),
                new_inputs=decode(request.news),
            )
            return _diff_response(plugin.diff_config(diff))

    def Configure(self, request: Any, context: Any) -> Any:
        with self._plugin(context) as plugin:
            plugin.configure(
                ConfigureRequest(variables=dict(request.variables), inputs=decode(request.args))
            )
            return provider_pb2.ConfigureResponse(
                acceptSecrets=True,
                supportsPreview=True,
                acceptResources=True,
                acceptOutputs=False,
                supports_autonaming_configuration=True,
            )

    # Resources.

    def Check(self, request: Any, context: Any) -> Any:
        with self._plugin(context) as plugin:
            check = CheckRequest(
                urn=request.urn,
                type=request.type,
                name=request.name,
                old_inputs=decode(request.olds),
                new_inputs=decode(request.news),
                random_seed=request.randomSeed,
                autonaming=_autonaming(request),
            )
            return _check_response(plugin.check(check))

    def Diff(self, request: Any, context: Any) -> Any:
        with self._plugin(context) as plugin:
            diff = DiffRequest(
                urn=request.urn,
                type=request.type,
                id=request.id,
                old_inputs=decode(request.old_inputs),
                old_outputs=decode(request.olds),
                new_inputs=decode(request.news),
            )
            return _diff_response(plugin.diff(diff))

    def Create(self, request: Any, context: Any) -> Any:
        with self._plugin(context) as plugin:
            creation = CreateRequest(
                urn=request.urn,
                type=request.type,
                name=request.name,
                inputs=decode(request.properties),
                timeout_s=request.timeout,
                preview=request.preview,
            )
            created = plugin.create(creation)
            return provider_pb2.CreateResponse(id=created.id, properties=encode(created.outputs))

    def Read(self, request: Any, context: Any) -> Any:
        with self._plugin(context) as plugin:
            reading = ReadRequest(
                urn=request.urn,
                type=request.type,
                id=request.id,
                inputs=decode(request.inputs),
                outputs=decode(request.properties),
                timeout_s=request.timeout,
            )
            state = plugin.read(reading)
            if state is None:
                return provider_pb2.ReadResponse(id="")
            return provider_pb2.ReadResponse(
                id=state.id, properties=encode(state.outputs), inputs=encode(state.inputs)
            )

    def Update(self, request: Any, context: Any) -> Any:
        with self._plugin(context) as plugin:
            update = UpdateRequest(
                urn=request.urn,
                type=request.type,
                id=request.id,
                old_inputs=decode(request.old_inputs),
                old_outputs=decode(request.olds),
                new_inputs=decode(request.news),
                timeout_s=request.timeout,
                preview=request.preview,
                ignored=tuple(request.ignoreChanges),
            )
            return provider_pb2.UpdateResponse(properties=encode(plugin.update(update)))

    def Delete(self, request: Any, context: Any) -> Any:
        with self._plugin(context) as plugin:
            deletion = DeleteRequest(
                urn=request.urn,
                type=request.type,
                id=request.id,
                inputs=decode(request.old_inputs),
                outputs=decode(request.properties),
                timeout_s=request.timeout,
            )
            plugin.delete(deletion)
            return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        with self._plugin(context) as plugin:
            invocation = InvokeRequest(
                token=request.tok, args=decode(request.args), preview=request.preview
            )
            return provider_pb2.InvokeResponse(**{"return": encode(plugin.invoke(invocation))})

    def Construct(self, request: Any, context: Any) -> Any:
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"{request.type} is a component resource of the provider, which the rehearsal does not "
            "support; use the provider's plain resources",
        )


def _check_response(checked: Checked) -> Any:
    failures = [
        provider_pb2.CheckFailure(property=f.property, reason=f.reason) for f in checked.failures
    ]
    return provider_pb2.CheckResponse(inputs=encode(checked.inputs), failures=failures)


def _diff_response(difference: Difference) -> Any:
    response = provider_pb2.DiffResponse
    changes = {None: response.DIFF_UNKNOWN, False: response.DIFF_NONE, True: response.DIFF_SOME}[
        difference.changes
    ]
    answer = response(
        changes=changes,
        replaces=difference.replaces,
        deleteBeforeReplace=difference.delete_before_replace,
        diffs=difference.diffs,
    )
    if difference.detailed is not None:
        answer.hasDetailedDiff = True
        for path, kind in difference.detailed.items():
            number = provider_pb2.PropertyDiff.Kind.Value(kind.upper().replace("-", "_"))
            of_inputs = difference.input_paths is None or path in difference.input_paths
            answer.detailedDiff[path].CopyFrom(
                provider_pb2.PropertyDiff(kind=number, inputDiff=of_inputs)
            )
    return answer


def _autonaming(request: Any) -> Autonaming | None:
    if not request.HasField("autonaming"):
        return None
    mode = provider_pb2.CheckRequest.AutonamingOptions.Mode.Name(request.autonaming.mode).lower()
    return Autonaming(request.autonaming.proposed_name, mode)


def _status(message: str, detail: Any) -> bytes:
    """A serialised google.rpc.Status.

    Encoded by hand, because pulumi and googleapis both define that message and protobuf refuses
    to load it twice.
    """
    packed = any_pb2.Any()
    packed.Pack(detail)
    text, raw = message.encode(), packed.SerializeToString()
    unknown = grpc.StatusCode.UNKNOWN.value[0]
    return (
        b"\x08"
        + _varint(unknown)
        + b"\x12"
        + _varint(len(text))
        + text
        + b"\x1a"
        + _varint(len(raw))
        + raw
    )


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
