"""botocore against the simulated AWS in this process, and what that was asked and said."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from botocore.config import Config
from botocore.session import Session

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import write_account
from slicewright.rehearsal.clouds.aws.models import SERVICES, loader
from slicewright.rehearsal.clouds.aws.protocols.service import AwsProtocols
from slicewright.rehearsal.clouds.core.access import Access
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from slicewright.rehearsal.clouds.endpoint import Endpoint
from slicewright.rehearsal.clouds.service import Cloud

REGION = "eu-west-1"


@dataclass(frozen=True, kw_only=True)
class Said:
    """One call as the cloud saw it."""

    service: str
    operation: str
    body: JsonObject
    answer: JsonObject | None = None
    refusal: CloudError | None = None


@dataclass
class OverHttp:
    cloud: Cloud
    access: Access
    environment: Path
    said: list[Said] = field(default_factory=list)

    def call(
        self, service: str, operation: str, params: JsonObject, body: JsonObject
    ) -> JsonObject:
        seen: dict[str, Any] = {"service": service, "operation": operation, "body": body}
        try:
            answer = self.cloud.call(service, operation, params, body)
        except CloudError as e:
            self.said.append(Said(**seen, refusal=e))
            raise
        self.said.append(Said(**seen, answer=answer))
        return answer

    def client(self, service: str, *, key: str = "", secret: str = "") -> Any:
        """service: AWS's name of it."""
        return session().create_client(
            service,
            region_name=REGION,
            endpoint_url=self.access.url,
            aws_access_key_id=key or self.access.credentials.aws_access_key_id,
            aws_secret_access_key=secret or self.access.credentials.aws_secret_access_key,
            config=Config(retries={"total_max_attempts": 1}, proxies={}),
        )


@cache
def session() -> Session:
    """Shared: it keeps the models, whose reading takes a second."""
    made = Session()
    made.register_component("data_loader", loader())
    return made


@contextmanager
def over_http(environment: Path) -> Iterator[OverHttp]:
    write_account(environment, iam_spread_s=0, unseen_reads=0, leftovers_s=0)
    cloud = Cloud(environment, FakeControlPlanes(environment), ready_timeout_s=0.2)
    endpoint = Endpoint(environment)
    shown = OverHttp(cloud, endpoint.access, environment)
    endpoint.protocols = (AwsProtocols(shown.call, endpoint.credentials),)
    serving = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield shown
    finally:
        endpoint.shutdown()
        serving.join()
        endpoint.server_close()
        assert cloud.tasks.wait(120)


_POLICIES = ("AssumeRolePolicyDocument", "PolicyDocument")
"""Members that botocore decodes."""


def as_parsed(operation: Any, answer: JsonObject) -> JsonObject:
    """A handler's answer in the form that botocore gives its callers."""
    return {} if operation.output_shape is None else _typed(operation.output_shape, answer)


def without_metadata(parsed: Mapping[str, Any]) -> JsonObject:
    return {k: v for k, v in parsed.items() if k != "ResponseMetadata"}


def operation_model(service: str, operation: str) -> Any:
    """service: our name of it."""
    return session().get_service_model(SERVICES[service]).operation_model(operation)


def _typed(shape: Any, value: Any) -> Any:
    match shape.type_name:
        case "structure":
            return {
                k: _policy(v) if k in _POLICIES else _typed(shape.members[k], v)
                for k, v in value.items()
                if v is not None
            }
        case "list":
            return [_typed(shape.member, v) for v in value]
        case "map":
            return {k: _typed(shape.value, v) for k, v in value.items()}
        case "timestamp":
            return datetime.fromisoformat(value).astimezone(UTC)
        case _:
            return value


def _policy(text: str) -> JsonObject:
    """botocore decodes IAM's policy documents."""
    found: JsonObject = json.loads(unquote(text))
    return found
