"""What the program's cloud components ask for, applied to the simulated clouds in this process:
the program's registrations, the providers and the clouds are the real ones of a rehearsal, and
only the engine between them is played here, without previews, HTTP and processes. An `up` takes
half a second, so that properties can try many.

tests/infra/on_engine/test_every_key.py does the same through the real engine.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pulumi
import pulumi_aws
import pulumi_gcp
from pulumi.runtime.mocks import MockMonitor

from slicewright.infra import plan
from slicewright.infra.components.eks.cluster import EksCluster
from slicewright.infra.components.gke.cluster import GkeCluster
from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes, fake_nodes
from slicewright.rehearsal.clouds.service import Cloud
from slicewright.rehearsal.plugins.bridge.provider import BridgedProvider
from slicewright.rehearsal.plugins.engine.properties import Properties, decode, encode
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
from slicewright.rehearsal.plugins.providers.aws import client as aws_client
from slicewright.rehearsal.plugins.providers.aws.provider import AwsProvider
from slicewright.rehearsal.plugins.providers.gcp import client as google_client
from slicewright.rehearsal.plugins.providers.gcp.provider import GcpProvider
from tests.recorder import record

PROJECT = "slicewright-test"
_LIMIT_S = 60.0
"""How long a provider tries a call that the cloud refuses for now."""


class Refused(Exception):
    """By a provider's check or by a cloud."""


class Replaced(Exception):
    """The provider or the program asks for another resource in place of one."""


@dataclass
class _Made:
    type: str
    name: str
    id: str
    inputs: Properties
    outputs: Properties


@dataclass
class Applied(pulumi.runtime.Mocks):
    """A stack of the program's cloud component, with its state in memory."""

    directory: Path
    cloud: Cloud
    providers: Mapping[str, BridgedProvider]
    made: dict[tuple[str, str], _Made] = field(default_factory=dict)
    failure: Exception | None = None
    stack: str = "dev"
    """By it names differ that Pulumi makes up."""
    _asked: set[tuple[str, str]] = field(default_factory=set)
    options: threading.local = field(default_factory=threading.local)
    """Of the registration that a thread is at: `request`."""
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def up(self, fleet: plan.FleetPlan) -> None:
        """Raises Refused and Replaced."""
        self._asked, self.failure = set(), None

        def deploy() -> None:
            if isinstance(fleet, plan.EksFleetPlan):
                provider = pulumi_aws.Provider("aws", region=fleet.cluster.region)
                EksCluster("eks", fleet, provider=provider)
            else:
                assert isinstance(fleet, plan.GkeFleetPlan)
                google = pulumi_gcp.Provider("gcp", project=PROJECT, region=fleet.cluster.region)
                GkeCluster("gke", fleet, project=PROJECT, provider=google)

        region = fleet.cluster.region if not isinstance(fleet, plan.ExistingFleetPlan) else ""
        for name, provider in self.providers.items():
            settings = {f"{name}:config:region": region, f"{name}:config:project": PROJECT}
            provider.configure(ConfigureRequest(variables=settings))
        try:
            record(self, deploy, stack="dev", monitor=_Monitor(self))
        except Exception as e:
            raise self.failure or e from None
        if self.failure:
            raise self.failure
        for key in [key for key in reversed(self.made) if key not in self._asked]:
            self._delete(self.made.pop(key))
        assert self.cloud.tasks.wait(60)

    def beside(self) -> Applied:
        """Another stack in the same account."""
        return Applied(self.directory, self.cloud, self.providers, stack="other")

    def nodes(self, cluster: str) -> Mapping[str, set[str]]:
        """Pool -> its nodes, by the machines that they are."""
        found: dict[str, set[str]] = {}
        for node in fake_nodes(self.directory, cluster).read():
            labels = node["metadata"]["labels"]
            pool = labels.get("slicewright.io/pool", "system")
            found.setdefault(pool, set()).add(node["spec"]["providerID"])
        return found

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        package = args.typ.partition(":")[0]
        with self._one_at_a_time:
            if package not in self.providers or self.failure:
                # Components and providers; and what comes after a failure.
                return f"{args.name}-id", dict(args.inputs)
            try:
                made = self._registered(args, self.providers[package])
            except Exception as e:
                self.failure = e if isinstance(e, Replaced) else Refused(f"{args.name}: {e}")
                raise
        return made.id, {k: v for k, v in made.outputs.items() if k != "__defaults"}

    def call(
        self, args: pulumi.runtime.MockCallArgs
    ) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        provider = self.providers[args.token.partition(":")[0]]
        return dict(provider.invoke(InvokeRequest(token=args.token, args=dict(args.args)))), []

    def _registered(
        self, args: pulumi.runtime.MockResourceArgs, provider: BridgedProvider
    ) -> _Made:
        key = (args.typ, args.name)
        self._asked.add(key)
        if args.resource_id:
            asked = ReadRequest(
                urn="urn", type=args.typ, id=args.resource_id, inputs={}, outputs={}
            )
            found = provider.read(asked)
            assert found is not None, f"{args.resource_id} does not exist"
            return _Made(args.typ, args.name, args.resource_id, found.inputs, found.outputs)
        old = self.made.get(key)
        options, given = self.options.request, decode(encode(args.inputs))
        if old:
            for path in options.ignoreChanges:
                _keep(path.split("."), old.inputs, given)
        inputs = self._checked(provider, args, old, given)
        if old is None:
            request = CreateRequest(
                urn="urn", type=args.typ, name=args.name, inputs=inputs, timeout_s=_LIMIT_S
            )
            made = provider.create(request)
            self.made[key] = _Made(args.typ, args.name, made.id, inputs, made.outputs)
        else:
            self._update(provider, old, inputs, tuple(options.replaceOnChanges))
        return self.made[key]

    def _checked(
        self,
        provider: BridgedProvider,
        args: pulumi.runtime.MockResourceArgs,
        old: _Made | None,
        given: Mapping[str, Any],
    ) -> Properties:
        checked = provider.check(
            CheckRequest(
                urn="urn",
                type=args.typ,
                name=args.name,
                old_inputs=old.inputs if old else {},
                new_inputs=given,
                random_seed=hashlib.sha256(f"{self.stack}{args.typ}{args.name}".encode()).digest(),
            )
        )
        if checked.failures:
            raise Refused(f"{args.name}: {checked.failures}")
        return checked.inputs

    def _update(
        self,
        provider: BridgedProvider,
        old: _Made,
        inputs: Properties,
        replace_on_changes: tuple[str, ...],
    ) -> None:
        both = {"old_inputs": old.inputs, "old_outputs": old.outputs, "new_inputs": inputs}
        found = provider.diff(DiffRequest(urn="urn", type=old.type, id=old.id, **both))
        detailed = found.detailed or {}
        if not detailed:
            return
        if any(
            kind.endswith("-replace") or path.startswith(replace_on_changes or ("\0",))
            for path, kind in detailed.items()
        ):
            raise Replaced(f"{old.name}: {detailed}")
        request = UpdateRequest(urn="urn", type=old.type, id=old.id, timeout_s=_LIMIT_S, **both)
        old.outputs, old.inputs = provider.update(request), inputs

    def _delete(self, made: _Made) -> None:
        self.providers[made.type.partition(":")[0]].delete(
            DeleteRequest(
                urn="urn",
                type=made.type,
                id=made.id,
                inputs=made.inputs,
                outputs=made.outputs,
                timeout_s=_LIMIT_S,
            )
        )


class _Monitor(MockMonitor):
    """Tells the mocks of the options of a registration, too."""

    def __init__(self, mocks: Applied) -> None:
        super().__init__(mocks)
        self._applied = mocks

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802
        self._applied.options.request = request
        return super().RegisterResource(request)


class _Direct:
    """Calls of a simulated cloud without HTTP. The clouds check them against the API models."""

    def __init__(self, cloud: Cloud, names: Mapping[str, str]) -> None:
        """names: of services that the simulated clouds call otherwise, as both have an IAM."""
        self._cloud = cloud
        self._names = names

    def call(
        self,
        service: str,
        method: str,
        params: JsonObject | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        sent = json.loads(json.dumps([params or {}, body or {}]))
        return dict(
            json.loads(
                json.dumps(self._cloud.call(self._names.get(service, service), method, *sent))
            )
        )


def _keep(path: list[str], old: Mapping[str, Any], new: dict[str, Any]) -> None:
    """Gives `new` the old value at a path of ignore_changes."""
    name, *rest = path
    if rest and isinstance(old.get(name), dict) and isinstance(new.get(name), dict):
        new[name] = dict(new[name])
        _keep(rest, old[name], new[name])
    elif name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


@contextmanager
def applied(**account: Any) -> Iterator[Applied]:
    """An empty stack over empty clouds. account: settings of the AWS account."""
    with TemporaryDirectory() as directory:
        write_account(Path(directory), **PROMPT, **account)
        cloud = Cloud(Path(directory), FakeControlPlanes(Path(directory)), ready_timeout_s=0.1)
        providers = {"aws": AwsProvider(), "gcp": GcpProvider()}
        aws = _Direct(cloud, {"iam": "aws-iam"})
        with (
            mock.patch.object(aws_client, "connect", return_value=aws),
            mock.patch.object(google_client, "connect", return_value=_Direct(cloud, {})),
        ):
            try:
                yield Applied(Path(directory), cloud, providers)
            finally:
                cloud.tasks.wait(60)
