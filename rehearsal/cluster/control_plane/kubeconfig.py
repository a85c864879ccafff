"""Kubeconfigs as JSON, which is YAML: they can be read without a YAML library."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from slicewright.rehearsal.cluster.control_plane.pki import Pki


def render(*, cluster: str, server: str, pki: Pki, user: str) -> str:
    """A kubeconfig with its certificates inline, so that a provider can be given it as a string."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": cluster,
                    "cluster": {"server": server, "certificate-authority-data": _data(pki.ca)},
                },
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate-data": _data(pki.cert(user)),
                        "client-key-data": _data(pki.key(user)),
                    },
                },
            ],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
            "current-context": cluster,
        },
        indent=1,
    )


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
