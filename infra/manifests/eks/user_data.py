"""The user data of EKS nodes, which nodeadm or Bottlerocket reads when they boot.

EKS adds its own, with the cluster: for Amazon Linux 2023 as one more part of the MIME message, for
Bottlerocket as more settings of the TOML. Sources: EKS user guide, customize managed nodes with
launch templates; awslabs/amazon-eks-ami, nodeadm; bottlerocket.dev, settings.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from slicewright.infra.plan import EksTemplate

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[2] / "templates"),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
    autoescape=select_autoescape(),
)
_STRATEGIES: Final[Mapping[str, str]] = {"raid0": "RAID0"}
"""nodeadm's values of `spec.instance.localStorage.strategy`."""


def eks_user_data(template: EksTemplate) -> str | None:
    """MIME multipart text or TOML, in base64. None if nodeadm needs nothing beyond EKS's."""
    if template.bottlerocket is not None:
        text = _TEMPLATES.get_template("bottlerocket-user-data.toml.j2").render(
            gpus=template.bottlerocket
        )
    elif template.instance_store is not None:
        text = _TEMPLATES.get_template("eks-user-data.txt.j2").render(
            local_storage=_STRATEGIES[template.instance_store]
        )
    else:
        return None
    return base64.b64encode(text.encode()).decode()
