"""A cloud provider's stand-in: the engine's calls, answered from a table of resources and the
simulated cloud.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rehearsal.clouds.core.client import CloudClient, CloudUnreachable
from rehearsal.clouds.core.errors import CloudError
from rehearsal.plugins.bridge.difference import difference
from rehearsal.plugins.bridge.kinds import Autoname, Made, Resource, Session
from rehearsal.plugins.bridge.schema import Schema
from rehearsal.plugins.engine.plugin import (
    UNKNOWN,
    Autonaming,
    Checked,
    CheckFailure,
    Created,
    Difference,
    InitFailed,
    Properties,
    ProviderError,
    ProviderPlugin,
    ReadBack,
    Secret,
    Severity,
    has_secret,
    unwrap,
)

_RETRIED = frozenset(
    {
        "FAILED_PRECONDITION",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
        "ABORTED",
        "ThrottlingException",
        "Throttling",
    }
)
"""Answers that the real providers wait out: another operation runs, quota of calls, a server's bad
moment.
"""


class BridgedProvider(ProviderPlugin):
    """Keeps nothing: one process per provider resource, and the cloud's state is the cloud's."""

    package = ""
    schema: Schema
    resources: Mapping[str, Resource]
    retry_pause_s = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._settings: dict[str, str] = {}

    def settings_from(self, variables: Mapping[str, str], args: Properties) -> dict[str, str]:
        """The provider's own settings (project, region): its inputs, else the stack's
        configuration.
        """
        found = {k.rpartition(":")[2]: v for k, v in variables.items()}
        return found | {k: v for k, v in unwrap(args).items() if isinstance(v, str)}

    def configure(self, variables: Mapping[str, str], args: Properties) -> None:
        self._settings = self.settings_from(variables, args)
        # Asked here, so that a run outside a rehearsal fails once, and at its beginning.
        _cloud()

    def check(
        self,
        urn: str,
        type: str,  # noqa: A002
        name: str,
        olds: Properties,
        news: Properties,
        random_seed: bytes,
        autonaming: Autonaming | None,
    ) -> Checked:
        resource = self._resource(type)
        inputs = {k: v for k, v in _asked(news).items() if v is not None}
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
            if autonaming and autonaming.mode == "disable":
                failures.append(
                    CheckFailure(
                        naming.property, "automatic names are disabled by the project; give one"
                    )
                )
            else:
                defaults[naming.property] = _name(naming, name, olds, random_seed, autonaming)
        inputs |= defaults
        failures += self.schema.failures(type, inputs)
        if not failures:
            failures += resource.rules(unwrap(inputs))
        return Checked({**inputs, "__defaults": sorted(defaults)}, failures)

    def diff(
        self,
        urn: str,
        type: str,  # noqa: A002
        id: str,  # noqa: A002
        old_outputs: Properties,
        old_inputs: Properties,
        news: Properties,
        ignore_changes: Sequence[str],
    ) -> Difference:
        resource = self._resource(type)
        return difference(
            old_inputs,
            news,
            force_new=resource.force_new,
            sets=resource.sets,
            keeps=resource.keeps,
            named_by=resource.autoname.property if resource.autoname else None,
        )

    def create(
        self,
        urn: str,
        type: str,  # noqa: A002
        name: str,
        inputs: Properties,
        timeout_s: float,
        preview: bool,
    ) -> Created:
        resource = self._resource(type)
        if preview:
            unknown = {o: UNKNOWN for o in self.schema.outputs(type) if o not in inputs}
            return Created("", unknown | _asked(inputs))
        session = self._session(urn, resource, timeout_s)
        made: Made = self._guarded(
            type, lambda: resource.create(session, unwrap(inputs)), retry_until=_deadline(session)
        )
        gone = f"{type} {made.id} vanished while it was created"
        return Created(
            made.id, self._outputs(session, resource, made.id, inputs, made.trouble, gone)
        )

    def read(
        self,
        urn: str,
        type: str,  # noqa: A002
        id: str,  # noqa: A002
        outputs: Properties,
        inputs: Properties,
        timeout_s: float,
    ) -> ReadBack | None:
        resource = self._resource(type)
        session = self._session(urn, resource, timeout_s)
        state = self._guarded(type, lambda: resource.read(session, id, unwrap(inputs)))
        if state is None:
            return None
        kept = {"__defaults": inputs["__defaults"]} if "__defaults" in inputs else {}
        return ReadBack(
            id, _marked({**state.inputs, **kept}, inputs), _marked(state.outputs, inputs)
        )

    def update(
        self,
        urn: str,
        type: str,  # noqa: A002
        id: str,  # noqa: A002
        old_outputs: Properties,
        old_inputs: Properties,
        news: Properties,
        timeout_s: float,
        ignore_changes: Sequence[str],
        preview: bool,
    ) -> Properties:
        resource = self._resource(type)
        if preview:
            changed = {
                k for k in {*old_inputs, *news} if unwrap(old_inputs.get(k)) != unwrap(news.get(k))
            }
            open_ones = {
                o: UNKNOWN
                for o, causes in resource.update_unknowns.items()
                if changed & set(causes)
            }
            return {**old_outputs, **_asked(news), **open_ones}
        session = self._session(urn, resource, timeout_s)
        old, new = unwrap(old_inputs), unwrap(news)
        trouble = self._guarded(
            type, lambda: resource.update(session, id, old, new), retry_until=_deadline(session)
        )
        return self._outputs(
            session, resource, id, news, trouble, f"{type} {id} is gone; run pulumi refresh"
        )

    def delete(
        self,
        urn: str,
        type: str,  # noqa: A002
        id: str,  # noqa: A002
        outputs: Properties,
        old_inputs: Properties,
        timeout_s: float,
    ) -> None:
        resource = self._resource(type)
        session = self._session(urn, resource, timeout_s)
        self._guarded(
            type,
            lambda: resource.delete(session, id, unwrap(old_inputs)),
            retry_until=_deadline(session),
        )

    def _outputs(
        self,
        session: Session,
        resource: Resource,
        identity: str,
        inputs: Properties,
        trouble: Sequence[str],
        gone: str,
    ) -> Properties:
        """As they are after a change. Raises InitFailed where there was trouble, ProviderError
        (`gone`) where nothing is left.
        """
        state = self._guarded(
            resource.kind, lambda: resource.read(session, identity, unwrap(inputs))
        )
        if state is None:
            raise ProviderError(gone)
        # What a program reads must be there: an absent output would vanish from its dependents
        # without a word.
        empty = dict.fromkeys(self.schema.outputs(resource.kind))
        outputs = _marked({**empty, **_asked(inputs), **state.outputs}, inputs)
        if trouble:
            raise InitFailed(identity, outputs, inputs, trouble)
        return outputs

    def _resource(self, token: str) -> Resource:
        found = self.resources.get(token)
        if found is None:
            known = ", ".join(sorted(self.resources))
            raise ProviderError(
                f"the rehearsal's stand-in for {self.package} does not know {token}; it "
                f"knows {known}"
            )
        return found

    def _session(self, urn: str, resource: Resource, timeout_s: float) -> Session:
        cancelled = self.cancelled
        return Session(
            cloud=_cloud(),
            settings=self._settings,
            note=lambda line: self.log(Severity.INFO, line, urn, True),
            timeout_s=timeout_s or resource.default_timeout_s,
            cancelled=cancelled.is_set,
        )

    def _guarded(
        self, token: str, step: Callable[[], Any], *, retry_until: float | None = None
    ) -> Any:
        """The step, with the cloud's refusals worded for the user; passing ones are tried again
        until the deadline.
        """
        pause = self.retry_pause_s
        cancelled = self.cancelled
        while True:
            try:
                return step()
            except CloudUnreachable as e:
                raise ProviderError(str(e)) from e
            except CloudError as e:
                passing = e.reason in _RETRIED or (e.code >= 500 and e.code != 501)
                if (
                    not passing
                    or retry_until is None
                    or time.monotonic() + pause > retry_until
                    or cancelled.wait(pause)
                ):
                    raise ProviderError(f"{token}: {e.reason} ({e.code}): {e.message}") from e
                pause = min(pause * 2, 10)


def _cloud() -> CloudClient:
    try:
        return CloudClient.from_environment()
    except CloudUnreachable as e:
        raise ProviderError(str(e)) from e


def _deadline(session: Session) -> float:
    return time.monotonic() + session.timeout_s


def _name(
    naming: Autoname, name: str, olds: Properties, seed: bytes, autonaming: Autonaming | None
) -> str:
    """Kept while the resource lives; a replacement is checked without olds and gets a new one."""
    if naming.property in olds.get("__defaults", ()) and olds.get(naming.property):
        return str(unwrap(olds[naming.property]))
    if autonaming:
        chosen = autonaming.name
        return chosen[: naming.longest] if autonaming.mode == "propose" else chosen
    suffix = hashlib.sha256(seed or os.urandom(16)).hexdigest()[:7]
    stem = name.lower() if naming.lower else name
    return f"{stem[: naming.longest - 8]}-{suffix}"


def _asked(inputs: Properties) -> Properties:
    """Without the bridge's own note of what it filled in."""
    return {k: v for k, v in inputs.items() if k != "__defaults"}


def _marked(properties: Properties, inputs: Properties) -> Properties:
    """Secret where the input of that name was."""
    return {
        k: Secret(v) if k in inputs and has_secret(inputs[k]) and not has_secret(v) else v
        for k, v in properties.items()
    }
