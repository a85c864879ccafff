"""A request over HTTP to a simulated Google API: routed, authenticated, called and answered."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from html import escape

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError, not_simulated
from slicewright.rehearsal.clouds.core.http_messages import Call, Request, Response
from slicewright.rehearsal.clouds.gcp.answers import answer_errors
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.models import find_method
from slicewright.rehearsal.clouds.gcp.rest import endpoints, partial, paths, query
from slicewright.rehearsal.clouds.gcp.rest.error_format import error_body

log = logging.getLogger(__name__)
_JSON = "application/json; charset=UTF-8"
# Versions whose methods and fields that a rehearsal needs are those of the simulated one.
_ALIASES: Mapping[str, frozenset[str]] = {
    "container": frozenset({"v1beta1"}),
    "compute": frozenset({"beta"}),
}
_CREDENTIAL_HELP = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)


class GoogleRest:
    """`core.http_messages.Protocols` of Google Cloud."""

    def __init__(self, call: Call, *, token: str) -> None:
        """token: the access token of the one user whom the rehearsal's Google Cloud knows."""
        self._call = call
        self._token = token

    def accepts(self, request: Request) -> bool:
        return endpoints.is_google(request.path)

    def answer(self, request: Request) -> Response:
        request = _undo_method_override(request)
        target = endpoints.find(request.path)
        if target is None:
            return _no_such_page(request.path)
        standard = query.Standard()
        try:
            standard, pairs = query.split(request.query)
            body = self._answer(request, target, standard, pairs)
        except CloudError as e:
            return _refusal(target.service, e, standard)
        if body is None:
            return _no_such_page(request.path)
        return _json(200, body, standard)

    def _answer(
        self,
        request: Request,
        target: endpoints.Target,
        standard: query.Standard,
        pairs: list[tuple[str, str]],
    ) -> JsonObject | None:
        """None for a path that the API does not have. Raises CloudError."""
        service = target.service
        matched = paths.match(service, request.method, target.path)
        simulated = {endpoints.version(service), *_ALIASES.get(service, ())}
        if target.version not in simulated:
            raise not_simulated(
                f"The rehearsal's cloud does not simulate {service} {target.version}; it has "
                f"{', '.join(sorted(simulated))}."
            )
        if matched is None:
            return None
        method, in_path = matched
        self._authenticate(request, standard, service)
        description = find_method(service, method)
        params = {**query.typed(description, pairs), **in_path}
        mask = partial.parse(standard.fields) if standard.fields else {}
        answer = self._call(service, method, params, _body(request))
        wrong = answer_errors(service, method, answer)
        if wrong:
            log.error("%s %s answered what the API does not have: %s", service, method, wrong)
            raise google_error(
                500,
                f"internal error of the rehearsal's cloud: its answer of {service} {method} does "
                f"not fit the API: {'; '.join(wrong)}",
            )
        selected: JsonObject = partial.select(
            service, description.get("response", {}), mask, answer
        )
        return selected

    def _authenticate(self, request: Request, standard: query.Standard, service: str) -> None:
        """Raises CloudError 401."""
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        token = sent.strip() if scheme.lower() == "bearer" else standard.access_token or ""
        if hmac.compare_digest(token.encode(), self._token.encode()):
            return
        reason, problem = (
            ("ACCESS_TOKEN_TYPE_UNSUPPORTED", "Request had invalid authentication credentials.")
            if token
            else ("CREDENTIALS_MISSING", "Request is missing required authentication credential.")
        )
        details: JsonObject = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "googleapis.com",
            "metadata": {"service": endpoints.host(service)},
        }
        raise google_error(401, f"{problem} {_CREDENTIAL_HELP}", details=[details])


def _undo_method_override(request: Request) -> Request:
    """A GET whose URL was too long comes as a POST of its query, with a header that says so."""
    override = request.headers.get("x-http-method-override")
    if override is None or request.method != "POST":
        return request
    form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    if not form:
        return replace(request, method=override)
    return replace(request, method=override, query=request.body.decode("latin-1"), body=b"")


def _body(request: Request) -> JsonObject:
    """Raises CloudError 400."""
    if not request.body:
        return {}
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if kind != "application/json":
        raise google_error(400, f"A request's body must be application/json, not {kind}.")
    try:
        body = json.loads(request.body)
    except ValueError as e:
        raise google_error(400, f"Invalid JSON payload received. {e}.") from None
    if not isinstance(body, dict):
        raise google_error(
            400, 'Invalid JSON payload received. Unknown name "": Root element must be a message.'
        )
    return body


def _refusal(service: str, error: CloudError, standard: query.Standard) -> Response:
    body = error_body(service, error, error_format=standard.error_format)
    headers = {}
    if error.code == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="https://accounts.google.com/"'
    return _json(error.code, body, standard, headers)


def _json(
    status: int,
    body: JsonObject,
    standard: query.Standard,
    headers: Mapping[str, str] | None = None,
) -> Response:
    data = json.dumps(body, indent=2 if standard.pretty else None) + "\n"
    return Response(
        status=status, body=data.encode(), headers={"Content-Type": _JSON, **(headers or {})}
    )


def _no_such_page(path: str) -> Response:
    """Google answers a URL that no API has with a page, not with JSON."""
    page = (
        "<!DOCTYPE html>\n<html lang=en>\n<title>Error 404 (Not Found)!!1</title>\n"
        f"<p>The requested URL <code>{escape(path)}</code> was not found on this server.\n"
    )
    return Response(
        status=404, body=page.encode(), headers={"Content-Type": "text/html; charset=UTF-8"}
    )
