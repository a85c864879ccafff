"""Google's answer to the question whose an access token is.

Source: Google Identity docs, "Verify the Google ID token" and "OAuth 2.0 Playground" (tokeninfo).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs

from slicewright.rehearsal.clouds.core import tokens
from slicewright.rehearsal.clouds.core.http_messages import Request, Response
from slicewright.rehearsal.clouds.core.tokens import BadToken
from slicewright.rehearsal.clouds.gcp.gke_auth import PREFIX

PATH = "/oauth2.googleapis.com/"


@dataclass(frozen=True)
class TokenInfo:
    """`core.http_messages.Protocols` of oauth2.googleapis.com."""

    default: Callable[[], str | None]
    """The account of application default credentials, now."""
    secret: str
    """The environment's access token, and what signs the others."""

    def accepts(self, request: Request) -> bool:
        return request.path == f"{PATH}tokeninfo"

    def answer(self, request: Request) -> Response:
        token = parse_qs(request.body.decode()).get("access_token", [""])[0]
        email = self.default() if token == self.secret else self._account(token)
        claims = {"email": email, "email_verified": "true"}
        body = claims if email else {"error": "invalid_token"}
        return Response(
            status=200 if email else 400,
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )

    def _account(self, token: str) -> str | None:
        try:
            claims = tokens.read(token.removeprefix(PREFIX), secret=self.secret)
        except BadToken:
            return None
        return str(claims["account"])
