"""Bearer tokens of the simulated clouds' identities, for the Kubernetes API of their clusters.

A token names the identity, and is signed with the environment's secret: only programs of this
environment can make one. Standard library only, and little of it: kubectl waits for the credential
plugins, which make the tokens.
"""

import base64
import hashlib
import hmac
import json
import time


class BadToken(Exception):
    """The token is not one of this environment, or has expired."""


# Plain dicts below: importing typing costs milliseconds.


def make(claims: dict, *, secret: str, seconds: int) -> str:  # type: ignore[type-arg]
    """claims: the identity, by the names of its cloud. seconds: how long the token is valid."""
    text = json.dumps({**claims, "until": time.time() + seconds})
    body = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    return f"{body}.{_signature(body, secret)}"


def read(token: str, *, secret: str) -> dict:  # type: ignore[type-arg]
    """The claims of a token. Raises BadToken."""
    body, _, signature = token.rpartition(".")
    if not body or not hmac.compare_digest(signature.encode(), _signature(body, secret).encode()):
        raise BadToken("the token has no valid signature of this environment")
    claims: dict = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))  # type: ignore[type-arg]
    if claims.pop("until") < time.time():
        raise BadToken("the token has expired")
    return claims


def webhook_key(cluster: str, *, secret: str) -> str:
    """The part of a webhook's URL that only the API server of the cluster knows."""
    return _signature(f"webhooks of {cluster}", secret)


def _signature(body: str, secret: str) -> str:
    return hmac.new(secret.encode(), body.encode(), hashlib.sha256).hexdigest()
