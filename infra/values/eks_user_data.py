"""The user data of EKS nodes with Amazon Linux 2023, which nodeadm reads at their first boot.

EKS appends a part of its own, with the cluster; nodeadm merges the parts. Sources: EKS user guide,
customize managed nodes with launch templates; awslabs/amazon-eks-ami, nodeadm.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from infra.plan import EksTemplate

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
    autoescape=select_autoescape(),
)
_STRATEGIES: Final[Mapping[str, str]] = {"raid0": "RAID0"}
"""As nodeadm writes `spec.instance.localStorage.strategy`."""


def eks_user_data(template: EksTemplate) -> str | None:
    """MIME multipart text in base64; None where nodeadm needs nothing beyond EKS's part."""
    if template.instance_store is None:
        return None
    text = _TEMPLATES.get_template("eks-user-data.txt.j2").render(
        local_storage=_STRATEGIES[template.instance_store]
    )
    return base64.b64encode(text.encode()).decode()
