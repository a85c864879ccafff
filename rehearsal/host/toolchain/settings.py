"""The settings for obtaining tools, read from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slicewright.rehearsal.host.toolchain.errors import ToolchainError

DOWNLOAD = "SLICEWRIGHT_TOOLCHAIN_DOWNLOAD"
MIRROR = "SLICEWRIGHT_TOOLCHAIN_MIRROR"
CLEAR = "SLICEWRIGHT_TOOLCHAIN_CLEAR_GO_CACHE"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """This package reads the process environment only here; the standard library reads proxies."""

    cache: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """What builds inherit. Installed tools are looked for on its PATH."""
    download: bool = True
    mirror: str | None = None
    """Base URL that takes the place of `https://github.com` in every download."""
    clear_go_cache: bool = False
    """Go builds use temporary caches (several GB) instead of the user's."""
    connect_s: float = 1.5
    """Seconds after which a server that does not answer counts as unreachable."""
    stall_s: float = 15.0
    """Seconds without a byte after which a download is given up."""
    progress_s: float = 1.0
    """Seconds between two looks at a running build or download."""

    @property
    def path(self) -> str:
        return self.environment.get("PATH", os.defpath)


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Raises ToolchainError for an invalid value."""
    return Settings(
        cache=_cache_home(environment) / "slicewright" / "toolchain",
        environment=dict(environment),
        download=_chosen(environment, DOWNLOAD, {"auto": True, "never": False}, "auto"),
        mirror=_mirror(environment),
        clear_go_cache=_chosen(environment, CLEAR, {"1": True, "0": False}, "0"),
    )


def _cache_home(environment: Mapping[str, str]) -> Path:
    chosen = environment.get("XDG_CACHE_HOME", "")
    if chosen.startswith("/"):  # the XDG specification: a relative path is to be ignored
        return Path(chosen)
    try:
        return Path(environment["HOME"] if environment.get("HOME") else Path.home()) / ".cache"
    except RuntimeError as e:
        raise ToolchainError(
            f"there is no directory for built tools: set HOME or XDG_CACHE_HOME ({e})"
        ) from e


def _mirror(environment: Mapping[str, str]) -> str | None:
    value = environment.get(MIRROR, "").rstrip("/")
    if value and not value.startswith(("https://", "http://")):
        raise ToolchainError(
            f"{MIRROR}={value!r} is not a base URL; set https://HOST/…, which replaces "
            "https://github.com"
        )
    return value or None


def _chosen(
    environment: Mapping[str, str], name: str, meanings: Mapping[str, bool], default: str
) -> bool:
    value = environment.get(name, "") or default
    if value not in meanings:
        raise ToolchainError(f"{name}={value!r} is not one of {', '.join(meanings)}")
    return meanings[value]
