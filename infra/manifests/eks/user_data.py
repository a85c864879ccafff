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

from slicewright.apis.names import BOOT_LAYOUT_LABEL
from slicewright.infra.plan import BootLayout, EksTemplate

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[2] / "templates"),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
    autoescape=select_autoescape(),
)
_STRATEGIES: Final[Mapping[str, str]] = {"raid0": "RAID0"}
"""nodeadm's values of `spec.instance.localStorage.strategy`."""


def eks_user_data(template: EksTemplate) -> str | None:
    """`user_data_text` in base64."""
    text = user_data_text(template)
    return None if text is None else base64.b64encode(text.encode()).decode()


def boot_program(layout: BootLayout) -> str:
    """The program that partitions a node's GPUs when it boots, a shell script."""
    return _TEMPLATES.get_template("eks-boot-layout.sh.j2").render(boot=layout)


def user_data_text(template: EksTemplate) -> str | None:
    """MIME multipart text or TOML. None if nodeadm needs nothing beyond EKS's."""
    if template.bottlerocket is not None:
        return _TEMPLATES.get_template("bottlerocket-user-data.toml.j2").render(
            gpus=template.bottlerocket
        )
    store = template.instance_store
    if store is None and template.boot is None:
        return None
    return _TEMPLATES.get_template("eks-user-data.txt.j2").render(
        local_storage=_STRATEGIES[store] if store else None,
        boot=template.boot,
        boot_label=BOOT_LAYOUT_LABEL,
    )
