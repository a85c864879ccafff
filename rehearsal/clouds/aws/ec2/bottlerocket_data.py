"""The settings in a launch template's user data that Bottlerocket takes for its GPUs.

EKS adds the settings of the cluster. Source: bottlerocket.dev, settings.kubelet-device-plugins;
bottlerocket-os/bottlerocket-settings-sdk, kubelet-device-plugins: a setting that is not known, or
has another value, is refused, and the node never joins.
"""

from __future__ import annotations

import base64
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.user_data import BadUserData

_AT: Final = ("settings", "kubelet-device-plugins", "nvidia")


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _within(least: int, most: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _one_of(*names: str) -> Callable[[object], bool]:
    return lambda value: value in names


_SETTING_CHECKS: Final[Mapping[str, Callable[[object], bool]]] = {
    "device-id-strategy": _one_of("index", "uuid"),
    "device-list-strategy": _one_of("volume-mounts", "envvar", "cdi-cri"),
    "device-partitioning-strategy": _one_of("none", "mig"),
    "device-sharing-strategy": _one_of("none", "time-slicing", "mps"),
    "pass-device-specs": _flag,
    "time-slicing.replicas": _within(2, 2**31 - 1),
    "time-slicing.rename-by-default": _flag,
    "time-slicing.fail-requests-greater-than-one": _flag,
    "mps.replicas": _within(2, 48),
    "mps.rename-by-default": _flag,
}
_MODEL: Final = re.compile(r"[a-z]\d+\.\d+gb")
_PROFILE: Final = re.compile(r"[12347]|[1-9]g\.\d+gb(?:\+me)?")


def is_bottlerocket(ami_type: str | None) -> bool:
    return (ami_type or "").startswith("BOTTLEROCKET")


def bottlerocket_gpus(data: JsonObject) -> JsonObject:
    """settings.kubelet-device-plugins.nvidia of a launch template's data. Raises BadUserData."""
    if not data.get("UserData"):
        return {}
    try:
        settings: Any = tomllib.loads(base64.b64decode(data["UserData"]).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise BadUserData(f"user data of Bottlerocket is TOML, and this is not: {e}") from None
    for step in _AT:
        settings = settings.get(step, {})
    for path, value in _leaves(settings, ()):
        name = ".".join(path)
        if path[:2] == ("mig", "profile"):
            is_known = _profile(path[2:], value)
        elif name in _SETTING_CHECKS:
            is_known = _SETTING_CHECKS[name](value)
        else:
            raise BadUserData(f"unknown setting {'.'.join((*_AT, *path))}")
        if not is_known:
            raise BadUserData(f"{'.'.join((*_AT, *path))} cannot be {value!r}")
    return dict(settings)


def _profile(model: tuple[str, ...], value: object) -> bool:
    return (
        len(model) == 1
        and isinstance(value, str)
        and bool(_MODEL.fullmatch(model[0]) and _PROFILE.fullmatch(value))
    )


def _leaves(table: JsonObject, at: tuple[str, ...]) -> list[tuple[tuple[str, ...], object]]:
    leaves: list[tuple[tuple[str, ...], object]] = []
    for name, value in table.items():
        path = (*at, name)
        leaves += _leaves(value, path) if isinstance(value, dict) else [(path, value)]
    return leaves
