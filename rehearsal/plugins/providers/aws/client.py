"""Calls of AWS's APIs through botocore, at the endpoint that is configured.

Configured as the official provider is: by AWS_ENDPOINT_URL and by the keys in AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY. It retries as that does: throttling, server errors and broken connections, up
to 25 times. Source: terraform-provider-aws, "max_retries" and "retry_mode".
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws import models
from slicewright.rehearsal.clouds.core.client import CloudUnreachable
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.bridge.variables import values_of

_NEEDED = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_MAX_ATTEMPTS = 25
_PARALLEL = 32
"""Connections kept to a service: the engine works on 16 resources at a time or more."""


def connect() -> AwsClient:
    """The client that this process's variables configure. Raises CloudUnreachable without them."""
    endpoint, key, secret = values_of(_NEEDED, provider="aws")
    return _client(endpoint, key, secret)


# A process has one; one kept of each would fill the memory of a test run with models.
@lru_cache(maxsize=1)
def _client(endpoint: str, key: str, secret: str) -> AwsClient:
    return AwsClient(endpoint, key, secret)


class AwsClient:
    """Threads may share it. A service's model is read at its first call: EC2's takes 0.2 s."""

    def __init__(self, endpoint: str, key: str, secret: str) -> None:
        self._endpoint = endpoint
        self._keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        self._lock = threading.Lock()
        self._session: Any = None
        self._clients: dict[tuple[str, str], Any] = {}

    def call(
        self,
        service: str,
        method: str,
        params: JsonObject | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        """The answer of an operation such as `DescribeCluster`; params: the region.

        Raises CloudError when the API refuses or the connection breaks for good, CloudUnreachable
        when nothing answers.
        """
        from botocore import xform_name
        from botocore.exceptions import BotoCoreError, ClientError

        client = self._client(service, (params or {})["region"])
        try:
            answer = getattr(client, xform_name(method))(**(body or {}))
        except ClientError as e:
            raise _refusal(e.response) from e
        except BotoCoreError as e:
            # The connection, or the client's own check of parameters before anything is sent.
            code = 400 if type(e).__name__ == "ParamValidationError" else 503
            raise CloudError(code, type(e).__name__, str(e)) from e
        return {k: _plain(v) for k, v in answer.items() if k != "ResponseMetadata"}

    def _client(self, service: str, region: str) -> Any:
        with self._lock:
            key = (service, region)
            if key not in self._clients:
                self._clients[key] = self._new(service, region)
            return self._clients[key]

    def _new(self, service: str, region: str) -> Any:
        # Imported late: it takes 0.3 s of CPU, and most runs of a plugin call nothing.
        from botocore.config import Config
        from botocore.session import Session

        if self._session is None:
            # One session: it keeps the models and partitions that its clients share.
            self._session = Session()
            self._session.register_component("data_loader", models.loader())
        client = self._session.create_client(
            service,
            region_name=region,
            endpoint_url=self._endpoint,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": _MAX_ATTEMPTS},
                max_pool_connections=_PARALLEL,
                proxies={},
            ),
            **self._keys,
        )
        client.meta.events.register_first(f"needs-retry.{service}", _raise_if_unreachable)
        return client


def _raise_if_unreachable(caught_exception: Exception | None = None, **_: Any) -> None:
    """Raises CloudUnreachable: a rehearsal that has stopped does not come back by itself."""
    from botocore.exceptions import EndpointConnectionError

    if isinstance(caught_exception, EndpointConnectionError):
        raise CloudUnreachable(
            f"no simulated cloud answers ({caught_exception}); is the rehearsal running?"
        ) from caught_exception


def _refusal(response: Mapping[str, Any]) -> CloudError:
    error = response["Error"]
    status = int(response["ResponseMetadata"]["HTTPStatusCode"])
    return CloudError(status, str(error["Code"]), str(error["Message"]))


def _plain(value: Any) -> Any:
    """As text, where botocore makes an object of it: what Pulumi's state can hold."""
    match value:
        case dict():
            return {k: _plain(v) for k, v in value.items()}
        case list():
            return [_plain(v) for v in value]
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            return value
