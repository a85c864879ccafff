"""The answers about a first fleet, and the texts that they are read from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

Cloud = Literal["gke", "eks", "existing"]
CLOUDS: Final[tuple[Cloud, ...]] = get_args(Cloud)
NO_PARTITIONS: Final = "none"

_LONGEST_NAME: Final = 19
_LONGEST_ENVIRONMENT: Final = 20
"""The name of a GKE cluster has at most 40 characters: project, hyphen, environment. Source: GKE
API, Cluster.name.
"""
_MOST_ENVIRONMENTS: Final = 20
_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?")
_COUNT: Final = re.compile(r"(\S+?)\s*=\s*([0-9]{1,3})")


class WrongAnswer(Exception):
    """An answer is refused. The message says why, and what to answer instead."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers so far. A question that is still open has an empty answer or its default."""

    project: str
    """The name of the Pulumi project."""
    cloud: Cloud = "gke"
    environments: tuple[str, ...] = ("dev",)
    google_project: str = ""
    """gke: the ID of the Google Cloud project."""
    region: str = ""
    """gke, eks."""
    contexts: tuple[str, ...] = ()
    """existing: a context of the kubeconfig for each environment."""
    machine_type: str = ""
    """gke, eks."""
    gpu: str = ""
    """existing: the GPU model."""
    gpus_per_node: int = 1
    """existing: the number of GPUs of each node."""
    layout: Mapping[str, int] | str | None = None
    """Partitions of each GPU: MIG profile -> count, or the profile of all of them. None: whole
    GPUs.
    """
    nodes: int = 1


def project_name(directory: str) -> str:
    """A name for the project in a directory of that name."""
    words = re.sub(r"[^a-z0-9]+", "-", directory.lower()).strip("-0123456789")
    return words[:_LONGEST_NAME].rstrip("-") or "fleet"


def read_project(text: str) -> str:
    """The project's name in an answer. Raises WrongAnswer."""
    return _read_name(text, _LONGEST_NAME)


def read_cloud(text: str) -> Cloud:
    """The cloud in an answer. Raises WrongAnswer."""
    for cloud in CLOUDS:
        if text == cloud:
            return cloud
    raise WrongAnswer(f"{text!r} is not supported: answer {', '.join(CLOUDS[:-1])} or {CLOUDS[-1]}")


def read_environments(text: str) -> tuple[str, ...]:
    """The environments in a list with commas. Raises WrongAnswer."""
    names = read_list(text)
    if len(names) > _MOST_ENVIRONMENTS:
        raise WrongAnswer(f"{len(names)} environments: at most {_MOST_ENVIRONMENTS} are supported")
    return tuple(_read_name(name, _LONGEST_ENVIRONMENT) for name in names)


def read_list(text: str) -> tuple[str, ...]:
    """The entries of a list with commas. Raises WrongAnswer."""
    entries = tuple(entry.strip() for entry in text.split(","))
    if not all(entries):
        raise WrongAnswer(f"{text!r} has an empty entry: separate the names by commas")
    repeated = next((entry for entry in entries if entries.count(entry) > 1), None)
    if repeated is not None:
        raise WrongAnswer(f"{repeated!r} is listed twice: name each one once")
    return entries


def read_number(text: str) -> int:
    """A whole number. Raises WrongAnswer."""
    if re.fullmatch(r"[0-9]{1,9}", text) is None:
        raise WrongAnswer(f"{text!r} is not a whole number: answer for example 1")
    return int(text)


def read_layout(text: str) -> Mapping[str, int] | str | None:
    """Partitions as `none`, a profile, or `PROFILE=COUNT,PROFILE=COUNT`. Raises WrongAnswer."""
    if text == NO_PARTITIONS:
        return None
    entries = read_list(text)
    if len(entries) == 1 and "=" not in text:
        return text
    layout: dict[str, int] = {}
    for entry in entries:
        match = _COUNT.fullmatch(entry)
        if match is None:
            raise WrongAnswer(
                f"{entry!r} is not PROFILE=COUNT: answer for example 1g.10gb=2,2g.20gb=1, one "
                f"profile for as many partitions as fit, or {NO_PARTITIONS}"
            )
        if match[1] in layout:
            raise WrongAnswer(f"{match[1]!r} is listed twice: add up its counts")
        layout[match[1]] = int(match[2])
    return layout


def _read_name(text: str, most: int) -> str:
    if _NAME.fullmatch(text) is None or len(text) > most:
        raise WrongAnswer(
            f"{text[:60]!r} is not a valid name: use at most {most} lowercase letters, digits and "
            "hyphens, with a letter first; it becomes part of the cluster's name"
        )
    return text
