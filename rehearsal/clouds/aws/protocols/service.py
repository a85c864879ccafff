"""AWS over HTTP: the service and region of a request are those that its signature names."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws import models
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.protocols import json_rpc, query, rest_json, signatures
from slicewright.rehearsal.clouds.core.access import Credentials
from slicewright.rehearsal.clouds.core.errors import CloudError, ConnectionLost, not_simulated
from slicewright.rehearsal.clouds.core.http_messages import Call, Request, Response

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Protocol:
    parse: Callable[[Any, Request], tuple[str, JsonObject]]
    answer: Callable[[Any, JsonObject, str], Response]
    refusal: Callable[[CloudError, str], Response]


_PROTOCOLS: Mapping[str, _Protocol] = {
    "rest-json": _Protocol(rest_json.parse, rest_json.answer, rest_json.refusal),
    "json": _Protocol(json_rpc.parse, json_rpc.answer, json_rpc.refusal),
    "query": _Protocol(query.QUERY.parse, query.QUERY.answer, query.QUERY.refusal),
    "ec2": _Protocol(query.EC2.parse, query.EC2.answer, query.EC2.refusal),
}
_REST_XML = ("s3", "cloudfront", "route53")
_OUR_NAMES = {theirs: ours for ours, theirs in models.SERVICES.items()} | {
    # Service Quotas signs by another name than botocore calls it.
    "servicequotas": "service-quotas"
}
# Two services that sign as one, and are distinguished by the API version of a request.
_SHARED = "elasticloadbalancing"
_BY_VERSION = {"2012-06-01": "elb", "2015-12-01": "elbv2"}


class AwsProtocols:
    def __init__(self, call: Call, credentials: Credentials) -> None:
        self._call = call
        self._credentials = credentials

    def accepts(self, request: Request) -> bool:
        return request.headers.get("authorization", "").startswith(signatures.ALGORITHM)

    def answer(self, request: Request) -> Response:
        request_id = str(uuid.uuid4())
        signature = signatures.read(request)
        service = _service(signature, request) if signature else None
        if signature is None or service is None:
            return _likely_protocol(request, signature).refusal(_unusable(signature), request_id)
        model = models.service_model(service)
        name = model.metadata["protocol"]
        protocol = _PROTOCOLS[name]
        try:
            signatures.verify(request, signature, self._credentials, name)
            operation, parameters = protocol.parse(model, request)
            answered = self._call(service, operation, {"region": signature.region}, parameters)
            return protocol.answer(model.operation_model(operation), answered, request_id)
        except CloudError as e:
            return protocol.refusal(e, request_id)
        except ConnectionLost:
            raise
        except Exception as e:
            log.exception("%s %s", request.method, request.path)
            message = f"internal error of the rehearsal's cloud: {type(e).__name__}: {e}"
            return protocol.refusal(aws_error("InternalFailure", message, code=500), request_id)


def _service(signature: signatures.Signature, request: Request) -> str | None:
    """Our name of the service that the request is for."""
    if signature.service == _SHARED:
        return _BY_VERSION.get(query.version(request))
    return _OUR_NAMES.get(signature.service)


def _unusable(signature: signatures.Signature | None) -> CloudError:
    if signature is None:
        return aws_error(
            "IncompleteSignature",
            "Authorization must have Credential=KEY/DAY/REGION/SERVICE/aws4_request, SignedHeaders "
            "and Signature.",
        )
    return not_simulated(
        f"The rehearsal's cloud does not simulate {signature.service}; of AWS it has "
        f"{', '.join(sorted(models.SERVICES.values()))}."
    )


def _likely_protocol(request: Request, signature: signatures.Signature | None) -> _Protocol:
    """Of a service that is not known here: one that reads XML, or one of the newer, with JSON."""
    form = "form-urlencoded" in request.headers.get("content-type", "")
    reads_xml = form or (signature is not None and signature.service in _REST_XML)
    return _PROTOCOLS["query" if reads_xml else "rest-json"]
