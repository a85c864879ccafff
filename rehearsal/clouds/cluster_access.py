"""The webhooks that API servers of the clouds' clusters ask: who has a token, and may it do this.

GKE and EKS decide on their identities outside of the cluster, beside RBAC and without showing in
it. Source: Kubernetes docs, "Webhook Token Authentication" and "Webhook Mode".
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core import tokens
from slicewright.rehearsal.clouds.core.cluster_users import Attributes, ClusterUsers
from slicewright.rehearsal.clouds.core.control_planes import ACCESS_PATH
from slicewright.rehearsal.clouds.core.http_messages import Request, Response
from slicewright.rehearsal.clouds.core.tokens import BadToken

_PATH = re.compile(
    re.escape(ACCESS_PATH) + r"(?P<key>[^/]+)/(?P<cluster>[^/]+)/(?P<question>users|rights)/?"
)


@dataclass(frozen=True)
class ClusterAccess:
    """`core.http_messages.Protocols` for API servers. secret: signs tokens, and lets them ask."""

    clouds: Sequence[ClusterUsers]
    secret: str
    prefixes: Sequence[str]
    """The beginnings of the clouds' tokens."""

    def accepts(self, request: Request) -> bool:
        return request.path.startswith(ACCESS_PATH)

    def answer(self, request: Request) -> Response:
        match = _PATH.fullmatch(request.path)
        if match is None:
            return Response(status=403)
        key = tokens.webhook_key(match["cluster"], secret=self.secret)
        if not hmac.compare_digest(match["key"].encode(), key.encode()):
            return Response(status=403)
        review = json.loads(request.body)
        cluster, spec = match["cluster"], review["spec"]
        is_token = match["question"] == "users"
        status = self._user(cluster, spec) if is_token else self._right(cluster, spec)
        body = {"apiVersion": review["apiVersion"], "kind": review["kind"], "status": status}
        return Response(
            status=200,
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )

    def _cloud(self, cluster: str) -> ClusterUsers | None:
        return next((cloud for cloud in self.clouds if cloud.has(cluster)), None)

    def _user(self, cluster: str, spec: Mapping[str, Any]) -> JsonObject:
        token, cloud = str(spec.get("token")), self._cloud(cluster)
        prefix = next((p for p in self.prefixes if token.startswith(p)), None)
        if cloud is None or prefix is None:
            return {"authenticated": False}
        try:
            claims = tokens.read(token.removeprefix(prefix), secret=self.secret)
        except BadToken as e:
            return {"authenticated": False, "error": str(e)}
        user = cloud.user(cluster, claims)
        if user is None:
            return {"authenticated": False}
        names = {"username": user.name, "uid": user.name, "groups": list(user.groups)}
        return {"authenticated": True, "user": names}

    def _right(self, cluster: str, spec: Mapping[str, Any]) -> JsonObject:
        cloud = self._cloud(cluster)
        if cloud is None:
            return {"allowed": False}
        resource = spec.get("resourceAttributes") or {}
        path = spec.get("nonResourceAttributes") or {}
        attributes = Attributes(
            verb=(resource or path).get("verb", ""),
            group=resource.get("group", ""),
            resource=resource.get("resource", ""),
            namespace=resource.get("namespace", ""),
            path=path.get("path", ""),
        )
        refusal = cloud.refusal(cluster, str(spec.get("user", "")), attributes)
        return {"allowed": refusal is None, "reason": refusal or ""}
