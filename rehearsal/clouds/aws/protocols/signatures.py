"""Signature Version 4 of a request: who asks which service of which region, and whether that holds.

Source: "Signature Version 4 for API requests", AWS Identity and Access Management user guide; the
errors: the sections "Common errors" of the API references of EC2, IAM and EKS.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.core.access import Credentials
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.http_messages import Request

ALGORITHM = "AWS4-HMAC-SHA256"
_TIME = "%Y%m%dT%H%M%SZ"
_LONGEST_AGE = timedelta(minutes=5)
_HEADER = re.compile(
    rf"{ALGORITHM}\s+Credential=(?P<key>[^/,\s]+)/(?P<day>\d{{8}})/(?P<region>[\w-]+)/"
    r"(?P<service>[\w-]+)/aws4_request\s*,\s*"
    r"SignedHeaders=(?P<headers>[^,\s]+)\s*,\s*Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True, kw_only=True)
class Signature:
    access_key_id: str
    region: str
    service: str
    """As AWS names it."""
    signed_headers: tuple[str, ...]
    signature: str


@dataclass(frozen=True)
class _Refusals:
    """Code and HTTP status, by protocol."""

    key: tuple[str, int]
    signature: tuple[str, int]
    time: tuple[str, int]


_REFUSALS: Mapping[str, _Refusals] = {
    "rest-json": _Refusals(
        key=("UnrecognizedClientException", 403),
        signature=("InvalidSignatureException", 403),
        time=("InvalidSignatureException", 403),
    ),
    "json": _Refusals(
        key=("UnrecognizedClientException", 400),
        signature=("InvalidSignatureException", 400),
        time=("InvalidSignatureException", 400),
    ),
    "query": _Refusals(
        key=("InvalidClientTokenId", 403),
        signature=("SignatureDoesNotMatch", 403),
        time=("SignatureDoesNotMatch", 403),
    ),
    "ec2": _Refusals(
        key=("AuthFailure", 401),
        signature=("AuthFailure", 401),
        time=("RequestExpired", 400),
    ),
}


def read(request: Request) -> Signature | None:
    """None where the header is not a signature of this version."""
    match = _HEADER.fullmatch(request.headers.get("authorization", "").strip())
    if match is None:
        return None
    return Signature(
        access_key_id=match["key"],
        region=match["region"],
        service=match["service"],
        signed_headers=tuple(match["headers"].lower().split(";")),
        signature=match["signature"],
    )


def verify(
    request: Request,
    signature: Signature,
    credentials: Credentials,
    protocol: str,
    *,
    at: datetime | None = None,
) -> None:
    """Raises CloudError with the code that a service of this protocol has for it.

    at: the time to compare with; None = now.
    """
    refusals = _REFUSALS[protocol]
    if signature.access_key_id != credentials.aws_access_key_id:
        raise _refused(
            refusals.key,
            "The security token included in the request is invalid: this rehearsal has another "
            "access key, which `slicewright rehearse env` shows.",
        )
    if not _holds(request, signature, credentials):
        raise _refused(
            refusals.signature,
            "The request signature we calculated does not match the signature you provided. "
            "Check your AWS Secret Access Key and signing method.",
        )
    # Signed, so it is what the client wrote.
    signed_at = datetime.strptime(request.headers["x-amz-date"], _TIME).replace(tzinfo=UTC)
    moment = at or datetime.now(UTC)
    if abs(moment - signed_at) > _LONGEST_AGE:
        raise _refused(
            refusals.time,
            f"Signature expired: signed at {signed_at:{_TIME}}, it is {moment:{_TIME}} now, and "
            f"{_LONGEST_AGE.seconds // 60} minutes between them are allowed.",
        )


def _holds(request: Request, signature: Signature, credentials: Credentials) -> bool:
    # Loaded with the first request: the service would start a third of a second later.
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials as Keys

    time = request.headers.get("x-amz-date", "")
    needed = {"host", "x-amz-date"}
    if not needed <= set(signature.signed_headers) or not re.fullmatch(r"\d{8}T\d{6}Z", time):
        return False
    digest = request.headers.get("x-amz-content-sha256")
    if digest is not None and digest != hashlib.sha256(request.body).hexdigest():
        return False
    query = f"?{request.query}" if request.query else ""
    signed = AWSRequest(
        method=request.method,
        url=f"http://{request.headers.get('host', '')}{request.path}{query}",
        headers={name: request.headers.get(name, "") for name in signature.signed_headers},
        data=request.body,
    )
    signed.context["timestamp"] = time
    keys = Keys(credentials.aws_access_key_id, credentials.aws_secret_access_key)
    signer = SigV4Auth(keys, signature.service, signature.region)
    text = signer.string_to_sign(signed, signer.canonical_request(signed))
    return hmac.compare_digest(signer.signature(text, signed), signature.signature)


def _refused(code: tuple[str, int], message: str) -> CloudError:
    return aws_error(code[0], message, code=code[1])
