"""Kubeconfigs as JSON (which is YAML): every reader in the rehearsal can parse them without a YAML
library.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from rehearsal.cluster.control_plane.pki import Pki


def render(*, cluster: str, server: str, pki: Pki, user: str) -> str:
    """A kubeconfig that carries everything itself, so that it can be copied and handed to a
    provider as one string.
    """
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
