"""Refuses tokens in a workload's texts, and images that change under their name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule

SECRETS = "Kubernetes docs, good practices for Secrets"
_BEGINS: Final = r"(?<![A-Za-z0-9])"
"""Excludes the middle of a word: task-queue-… does not contain the key sk-queue-…"""
_TOKENS: Final[Mapping[str, str]] = {
    "of Hugging Face": r"hf_[A-Za-z0-9]{16,}",
    "of OpenAI's API": r"sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}",
    "of GitHub": r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    "of NVIDIA's API": r"nvapi-[A-Za-z0-9_-]{20,}",
    "of AWS": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "of Google": r"AIza[A-Za-z0-9_-]{30,}",
    "in JWT form": r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "in PEM form": r"-----BEGIN [A-Z ]*PRIVATE KEY",
}
"""How tokens look, behind `_BEGINS`. Sources: GitHub docs, secret scanning patterns; AWS docs,
unique identifiers.
"""


@rule("workload-text")
def check_texts(
    workload: stack_file.ServedWorkload, path: stack_file.Path, stated: Stated
) -> Checked[None]:
    """No text of a workload is a token: the state, the cluster and this output would have it."""
    for at, text in _texts(workload, path):
        kind = next(
            (kind for kind, look in _TOKENS.items() if re.search(_BEGINS + look, text)), None
        )
        if kind is not None:
            yield refuse(
                at,
                f"looks like a token {kind}, and would be in the file, in Pulumi's state and in "
                "the cluster for all to read",
                "put it into a Secret and name that: secrets: {HF_TOKEN: {name: …, key: …}}; and "
                "revoke the token if the file was shared",
                SECRETS,
            )
    for name in sorted(workload.env.keys() & workload.secrets.keys()):
        yield refuse(
            (*path, "env", name),
            "is also in secrets, and a variable has one value",
            "leave one out",
            in_key=True,
        )
    tag = workload.image.partition("@")[0].rpartition(":")
    tagged = "/" not in tag[2] and bool(tag[0])
    moving = "@" not in workload.image and (not tagged or tag[2] == "latest")
    if moving and stated.has((*path, "image")):
        yield refuse(
            (*path, "image"),
            f"{workload.image} is a moving tag: two replicas may run different images",
            "add a tag other than latest, or a digest: @sha256:…",
            "Kubernetes docs, images",
        )


def _texts(value: Any, path: stack_file.Path) -> Iterator[tuple[stack_file.Path, str]]:
    match value:
        case str():
            yield path, value
        case BaseModel():
            for key, inner in value:
                yield from _texts(inner, (*path, key))
        case Mapping():
            for key, inner in value.items():
                yield from _texts(inner, (*path, key))
        case tuple():
            for i, inner in enumerate(value):
                yield from _texts(inner, (*path, i))
        case _:
            pass
