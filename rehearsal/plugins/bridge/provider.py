"""A cloud provider: a table of resources, served from the simulated cloud."""

from __future__ import annotations

import hashlib
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from slicewright.rehearsal.clouds.core.client import CloudUnreachable
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.bridge.difference import difference
from slicewright.rehearsal.plugins.bridge.resources import (
    Autoname,
    Calls,
    Function,
    Resource,
    Session,
)
from slicewright.rehearsal.plugins.bridge.schema import Schema
from slicewright.rehearsal.plugins.bridge.unset_fields import unset_properties
from slicewright.rehearsal.plugins.engine.plugin import (
    Checked,
    CheckFailure,
    Created,
    Difference,
    InitFailed,
    ProviderError,
    ProviderPlugin,
    ReadBack,
    Severity,
)
from slicewright.rehearsal.plugins.engine.properties import (
    UNKNOWN,
    Properties,
    Secret,
    has_secret,
    unwrap,
)
from slicewright.rehearsal.plugins.engine.requests import (
    CheckRequest,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DiffRequest,
    InvokeRequest,
    ReadRequest,
    UpdateRequest,
)

T = TypeVar("T")

_ASKED_S = 60.0
"""How long a function is tried."""
_UNSEEN_S = 20.0
"""How long a new resource may not be found; the real providers allow some minutes."""


class BridgedProvider(ProviderPlugin):
    """Stateless but for its settings: all resources' state is in the simulated cloud."""

    package = ""
    schema: Schema
    resources: Mapping[str, Resource]
    functions: Mapping[str, Function] = {}
    retry_pause_s = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._settings: dict[str, str] = {}

    def configure(self, request: ConfigureRequest) -> None:
        """Settings (project, region): the provider's inputs, else the stack's configuration."""
        configured = {k.rpartition(":")[2]: v for k, v in request.variables.items()}
        inputs = {k: v for k, v in unwrap(request.inputs).items() if isinstance(v, str)}
        self._settings = configured | inputs
        # Fails here, once and early, when it runs outside a rehearsal environment.
        self._connect()

    @abstractmethod
    def connect(self) -> Calls:
        """The cloud's APIs. Raises CloudUnreachable outside a rehearsal environment."""

    def _connect(self) -> Calls:
        try:
            return self.connect()
        except CloudUnreachable as e:
            raise ProviderError(str(e)) from e

    def check(self, request: CheckRequest) -> Checked:
        resource = self._resource(request.type)
        inputs = {k: v for k, v in _without_marks(request.new_inputs).items() if v is not None}
        defaults = {
            k: v
            for k, v in resource.defaults(unwrap(inputs), self._settings).items()
            if k not in inputs
        }
        failures: list[CheckFailure] = []
        naming = resource.autoname
        if (
            naming
            and naming.property not in inputs
            and not (naming.prefix_property and inputs.get(naming.prefix_property))
        ):
            if request.autonaming and request.autonaming.mode == "disable":
                failures.append(
                    CheckFailure(
                        naming.property,
                        "must be set: the project disables automatic names (pulumi:autonaming)",
                    )
                )
            else:
                defaults[naming.property] = _name(naming, request)
        inputs |= defaults
        failures += self.schema.failures(request.type, inputs)
        if not failures:
            failures += resource.rules(unwrap(inputs))
        return Checked({**inputs, "__defaults": sorted(defaults)}, failures)

    def diff(self, request: DiffRequest) -> Difference:
        resource = self._resource(request.type)
        state, old, new = map(unwrap, (request.old_outputs, request.old_inputs, request.new_inputs))
        return difference(
            request.old_inputs,
            request.new_inputs,
            force_new=(*resource.force_new, *resource.replaced_by(old, new)),
            delete_before_replace=resource.delete_before_replace,
            sets=resource.sets,
            keeps=resource.keeps,
            keeps_whole=resource.keeps_whole,
            named_by=resource.autoname.property if resource.autoname else None,
            unset_properties=unset_properties(self.schema, request.type, state, old, new),
            state=state,
        )

    def create(self, request: CreateRequest) -> Created:
        resource, inputs = self._resource(request.type), request.inputs
        if request.preview:
            unknown = {o: UNKNOWN for o in self.schema.outputs(request.type) if o not in inputs}
            return Created("", unknown | _without_marks(inputs))
        session = self._session(request, resource)
        created = self._with_retries(
            request.type,
            lambda: resource.create(session, unwrap(inputs)),
            busy=resource.busy_reasons,
            retry_until=_deadline(session),
        )
        outputs = self._new_outputs(session, resource, created.id, inputs)
        if outputs is None:
            raise ProviderError(
                f"{request.type} {created.id} disappeared while it was being created; run "
                "`pulumi up` again"
            )
        if created.reasons:
            raise InitFailed(id=created.id, outputs=outputs, inputs=inputs, reasons=created.reasons)
        return Created(created.id, outputs)

    def read(self, request: ReadRequest) -> ReadBack | None:
        resource, inputs = self._resource(request.type), request.inputs
        session = self._session(request, resource)
        state = self._with_retries(
            request.type, lambda: resource.read(session, request.id, unwrap(inputs))
        )
        if state is None:
            return None
        default_marks = {"__defaults": inputs["__defaults"]} if "__defaults" in inputs else {}
        return ReadBack(
            request.id,
            _with_secrets({**state.inputs, **default_marks}, inputs),
            _with_secrets(state.outputs, inputs),
        )

    def update(self, request: UpdateRequest) -> Properties:
        resource = self._resource(request.type)
        if request.preview:
            return _previewed_update(resource, request)
        session = self._session(request, resource)
        old, new = unwrap(request.old_inputs), unwrap(request.new_inputs)
        reasons = self._with_retries(
            request.type,
            lambda: resource.update(session, request.id, old, new),
            busy=resource.busy_reasons,
            retry_until=_deadline(session),
        )
        outputs = self._outputs(session, resource, request.id, request.new_inputs)
        if outputs is None:
            raise ProviderError(f"{request.type} {request.id} is gone; run `pulumi refresh`")
        if reasons:
            raise InitFailed(
                id=request.id, outputs=outputs, inputs=request.new_inputs, reasons=reasons
            )
        return outputs

    def delete(self, request: DeleteRequest) -> None:
        resource = self._resource(request.type)
        session = self._session(request, resource)
        self._with_retries(
            request.type,
            lambda: resource.delete(session, request.id, unwrap(request.inputs)),
            busy=resource.busy_reasons,
            retry_until=_deadline(session),
        )

    def invoke(self, request: InvokeRequest) -> Properties:
        function = self.functions.get(request.token)
        if function is None:
            raise ProviderError(
                f"the rehearsal's {self.package} provider does not simulate {request.token}; it "
                f"simulates {', '.join(sorted(self.functions)) or 'no function'}"
            )
        session = Session(
            cloud=self._connect(),
            settings=self._settings,
            show_status=lambda line: self.log(Severity.INFO, line, "", ephemeral=True),
            timeout_s=_ASKED_S,
            cancelled=self.cancelled.is_set,
        )
        return self._with_retries(
            request.token,
            lambda: function(session, unwrap(request.args)),
        )

    def _new_outputs(
        self, session: Session, resource: Resource, resource_id: str, inputs: Properties
    ) -> Properties | None:
        """The outputs of what was created just now: a cloud's reads may not show it at once."""
        until = time.monotonic() + min(session.timeout_s, _UNSEEN_S)
        pause = 0.02
        while True:
            outputs = self._outputs(session, resource, resource_id, inputs)
            if outputs is not None or time.monotonic() > until or self.cancelled.wait(pause):
                return outputs
            pause = min(pause * 2, 1)

    def _outputs(
        self, session: Session, resource: Resource, resource_id: str, inputs: Properties
    ) -> Properties | None:
        """The outputs after a change; None if the resource is gone."""
        # Retried: without an answer the engine would not learn of what was created.
        state = self._with_retries(
            resource.kind,
            lambda: resource.read(session, resource_id, unwrap(inputs)),
            busy=resource.busy_reasons,
            retry_until=_deadline(session),
        )
        if state is None:
            return None
        # Every output of the schema must be there: the engine drops an absent one from its
        # dependents without an error.
        empty = dict.fromkeys(self.schema.outputs(resource.kind))
        return _with_secrets({**empty, **_without_marks(inputs), **state.outputs}, inputs)

    def _resource(self, token: str) -> Resource:
        resource = self.resources.get(token)
        if resource is None:
            raise ProviderError(
                f"the rehearsal's {self.package} provider does not simulate {token}; it simulates "
                f"{', '.join(sorted(self.resources))}"
            )
        return resource

    def _session(
        self,
        request: CreateRequest | ReadRequest | UpdateRequest | DeleteRequest,
        resource: Resource,
    ) -> Session:
        cancelled = self.cancelled
        return Session(
            cloud=self._connect(),
            settings=self._settings,
            show_status=lambda line: self.log(Severity.INFO, line, request.urn, ephemeral=True),
            timeout_s=request.timeout_s or resource.default_timeout_s,
            cancelled=cancelled.is_set,
        )

    def _with_retries(
        self,
        token: str,
        step: Callable[[], T],
        *,
        busy: Collection[str] = (),
        retry_until: float = 0,
    ) -> T:
        """The step's result, tried again until the deadline while the cloud is busy.

        busy: reasons of its refusal. Raises ProviderError with the cloud's message.
        """
        pause = self.retry_pause_s
        cancelled = self.cancelled
        while True:
            try:
                return step()
            except CloudUnreachable as e:
                raise ProviderError(str(e)) from e
            except CloudError as e:
                if (
                    e.reason not in busy
                    or time.monotonic() + pause > retry_until
                    or cancelled.wait(pause)
                ):
                    raise ProviderError(f"{token}: {e.reason} ({e.code}): {e.message}") from e
                pause = min(pause * 2, 10)


def _deadline(session: Session) -> float:
    return time.monotonic() + session.timeout_s


def _previewed_update(resource: Resource, request: UpdateRequest) -> Properties:
    old, new = request.old_inputs, request.new_inputs
    changed = {k for k in {*old, *new} if unwrap(old.get(k)) != unwrap(new.get(k))}
    unknown = {
        output: UNKNOWN
        for output, causes in resource.update_unknowns.items()
        if changed & set(causes)
    }
    return {**request.old_outputs, **_without_marks(new), **unknown}


def _name(naming: Autoname, request: CheckRequest) -> str:
    """The automatic name: the old one, or a new one where there are no old inputs."""
    old = request.old_inputs
    if naming.property in old.get("__defaults", ()) and old.get(naming.property):
        return str(unwrap(old[naming.property]))
    if request.autonaming:
        chosen = request.autonaming.name
        return chosen[: naming.longest] if request.autonaming.mode == "propose" else chosen
    suffix = hashlib.sha256(request.random_seed or os.urandom(16)).hexdigest()[:7]
    stem = request.name.lower() if naming.lower else request.name
    return f"{stem[: naming.longest - 8]}-{suffix}"


def _without_marks(inputs: Properties) -> Properties:
    """Without the list of properties that Check filled in."""
    return {k: v for k, v in inputs.items() if k != "__defaults"}


def _with_secrets(properties: Properties, inputs: Properties) -> Properties:
    """The properties, each Secret where the input of its name is."""
    return {
        k: Secret(v) if k in inputs and has_secret(inputs[k]) and not has_secret(v) else v
        for k, v in properties.items()
    }
