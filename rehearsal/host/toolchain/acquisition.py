"""Obtaining the tools: from PATH, else from the cache, else by download or build."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.rehearsal.host.toolchain import builders, disk, on_path, space
from slicewright.rehearsal.host.toolchain.cache import Cache
from slicewright.rehearsal.host.toolchain.errors import MissingPrerequisite, ToolchainError
from slicewright.rehearsal.host.toolchain.found import Found, Missing, cached, of
from slicewright.rehearsal.host.toolchain.reporting import Report
from slicewright.rehearsal.host.toolchain.settings import Settings
from slicewright.rehearsal.host.toolchain.tools import Tool, machine
from slicewright.rehearsal.host.toolchain.versions import Answers


def obtain(tools: Sequence[Tool], settings: Settings, report: Report) -> tuple[Found, ...]:
    """Every tool, in the order of `tools`. Raises ToolchainError; complete tools stay cached."""
    try:
        return _obtain(tools, settings, report)
    except OSError as e:
        if disk.is_full(e):
            raise MissingPrerequisite(space.full(tools, settings.cache, {})) from e
        where = e.filename or settings.cache
        raise ToolchainError(
            f"{where}: {e.strerror or e}; set XDG_CACHE_HOME to a writable directory"
        ) from e


def _obtain(tools: Sequence[Tool], settings: Settings, report: Report) -> tuple[Found, ...]:
    if not machine().startswith("linux-"):
        raise MissingPrerequisite(
            f"the rehearsal needs Linux (mount namespaces, NVML's ABI), and this is {machine()}"
        )
    cache = Cache(settings.cache)
    answers = Answers(settings.cache / "answers.json")
    cache.sweep()
    found: dict[str, Found] = {}
    missing: list[Missing] = []
    for tool in tools:
        installed = on_path.find(tool, settings, answers)
        if isinstance(installed, dict):
            found[tool.name] = Found(tool, "PATH", False, 0, installed)
            continue
        key = builders.key(tool, settings, answers)
        entry = cached(tool, key, cache, settings)
        if entry is not None:
            found[tool.name] = of(tool, entry, fresh=False)
        else:
            missing.append(Missing(tool, key, installed.reason))
    if missing:
        # Imported late: a run that finds everything needs no HTTP and TLS.
        from slicewright.rehearsal.host.toolchain.making import Making

        found |= {
            one.tool.name: one for one in Making(settings, cache, answers, report).make(missing)
        }
    return tuple(found[tool.name] for tool in tools)
