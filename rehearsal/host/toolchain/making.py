"""Making what is missing: official releases first, then builds, one tool after the other, telling
what and why.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rehearsal.host.toolchain import builders, c_compiler, disk, go_sdk, release, versions
from rehearsal.host.toolchain.cache import Cache, Entry, Origin, Report
from rehearsal.host.toolchain.errors import ToolchainError
from rehearsal.host.toolchain.found import Found, Missing, cached, of, release_key
from rehearsal.host.toolchain.go_sdk import Sdk
from rehearsal.host.toolchain.release import DownloadFailed, Network
from rehearsal.host.toolchain.settings import Settings
from rehearsal.host.toolchain.tools import CLibrary, GoModule, Tool, machine
from rehearsal.host.toolchain.versions import Answers


class Making:
    """One run's work. Tools are made one by one: two Go builds at once are slower on two cores than
    one after the other.
    """

    def __init__(self, settings: Settings, cache: Cache, answers: Answers, report: Report) -> None:
        self._settings = settings
        self._cache = cache
        self._answers = answers
        self._report = report
        self._network = Network(settings)

    def make(self, missing: Sequence[Missing]) -> Iterator[Found]:
        """Each tool as soon as it is there. Raises ToolchainError at the first that cannot be
        had.
        """
        names = ", ".join(one.tool.title for one in missing)
        longest = _estimate(sum(one.tool.expected_s for one in missing))
        self._report(f"to be got: {names} (if all must be built: about {longest} on 2 cores, once)")
        to_build: list[tuple[Missing, str]] = []
        for one in missing:
            outcome = self._download(one)
            if isinstance(outcome, str):
                to_build.append((one, outcome))
            else:
                yield outcome
        if to_build:
            sdk = self._prepare([one.tool for one, _ in to_build])
            with self._go_caches() as go_caches:
                for one, why_not in to_build:
                    yield self._build(one, why_not, sdk, go_caches)

    def _download(self, one: Missing) -> Found | str:
        """The tool, or why its official release cannot be had."""
        tool, wanted = one.tool, one.tool.release
        if wanted is None or machine() not in wanted.files:
            return "" if tool.version == "own" else "no official build that could be checked"
        if not self._settings.download:
            return "downloads are switched off"
        with self._cache.lock(tool.name, self._report):
            if (entry := cached(tool, one.build_key, self._cache, self._settings)) is not None:
                return of(tool, entry, fresh=False)
            began = time.monotonic()
            with self._cache.staging(tool.name) as staging:
                try:
                    release.fetch(
                        tool, wanted, staging, self._settings, self._network, self._report
                    )
                    self._check(tool, staging)
                except (DownloadFailed, ToolchainError) as e:
                    return f"its release cannot be downloaded ({e})"
                entry = self._publish(
                    tool, staging, release_key(tool, self._settings), "downloaded", began
                )
        self._report(f"{tool.title}: {one.why}; {_told(entry)}")
        return of(tool, entry, fresh=True)

    def _prepare(self, tools: Sequence[Tool]) -> Sdk | None:
        """What the builds need, looked for before the first one starts."""
        c_compiler.find(self._settings)
        if not any(isinstance(tool.source, GoModule) for tool in tools):
            return None
        sdk = go_sdk.ensure(self._settings, self._answers, self._cache, self._report)
        if disk.free(self._settings.cache) < disk.ENOUGH_BYTES:
            self._report(f"warning: {disk.room(self._settings.cache)}")
        return sdk

    @contextmanager
    def _go_caches(self) -> Iterator[Mapping[str, str]]:
        """Where Go keeps modules and compiled packages: the user's own, or caches that are gone
        when the builds are done.
        """
        if not self._settings.clear_go_cache:
            yield {}
            return
        with (
            self._cache.lock("go-caches", self._report),
            self._cache.staging("go-caches") as directory,
        ):
            yield {"GOCACHE": str(directory / "build"), "GOMODCACHE": str(directory / "modules")}

    def _build(
        self, one: Missing, why_not: str, sdk: Sdk | None, go_caches: Mapping[str, str]
    ) -> Found:
        tool = one.tool
        with self._cache.lock(tool.name, self._report):
            if (entry := cached(tool, one.build_key, self._cache, self._settings)) is not None:
                return of(tool, entry, fresh=False)
            reasons = "; ".join(reason for reason in (one.why, why_not) if reason)
            means = (
                "compiling it"
                if isinstance(tool.source, CLibrary)
                else "building it from the Go module registry"
            )
            self._report(
                f"{tool.title}: {reasons}; {means}, about {_estimate(tool.expected_s)} on 2 cores"
            )
            began = time.monotonic()
            with self._cache.staging(tool.name) as staging:
                log = self._cache.log(tool.name)
                builders.build(tool, staging, self._settings, sdk, go_caches, log, self._report)
                self._check(tool, staging)
                entry = self._publish(tool, staging, one.build_key, "built", began)
        self._report(f"{tool.title}: {_told(entry)}")
        return of(tool, entry, fresh=True)

    def _check(self, tool: Tool, staging: Path) -> None:
        """That what was got runs here and is what it should be, before anybody can find it."""
        for binary in tool.binaries:
            if not binary.ask:
                continue
            answer = versions.run(staging / "bin" / binary.name, binary.ask)
            if answer is None:
                raise ToolchainError(
                    f"{tool.title}: {binary.name} does not run here (is {self._cache.root} "
                    "mounted noexec?)"
                )
            if versions.parse(answer) != versions.parse(tool.version):
                raise ToolchainError(
                    f"{tool.title}: {binary.name} says that it is {answer.strip()[:80]!r}"
                )

    def _publish(self, tool: Tool, staging: Path, key: str, origin: Origin, began: float) -> Entry:
        files = tuple(binary.name for binary in tool.binaries)
        return self._cache.publish(
            staging, tool.name, key, origin=origin, seconds=time.monotonic() - began, files=files
        )


def _estimate(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _told(entry: Entry) -> str:
    size = sum(entry.files.values()) / 1e6
    return (
        f"{entry.origin} in {_duration(entry.seconds)}, {size:.1f} MB -> {entry.directory / 'bin'}"
    )
