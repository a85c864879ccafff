"""Obtaining what is missing: official releases first, then builds, one tool after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from slicewright.rehearsal.host.toolchain import (
    builders,
    c_compiler,
    go_sdk,
    release,
    space,
    versions,
)
from slicewright.rehearsal.host.toolchain.cache import Cache, Entry, Origin
from slicewright.rehearsal.host.toolchain.errors import MissingPrerequisite, ToolchainError
from slicewright.rehearsal.host.toolchain.found import Found, Missing, cached, of, release_key
from slicewright.rehearsal.host.toolchain.go_sdk import Sdk
from slicewright.rehearsal.host.toolchain.release import DownloadFailed, Network
from slicewright.rehearsal.host.toolchain.reporting import Report, duration, estimate, reporter_of
from slicewright.rehearsal.host.toolchain.settings import Settings
from slicewright.rehearsal.host.toolchain.tools import CLibrary, GoModule, Tool, machine
from slicewright.rehearsal.host.toolchain.versions import Answers


class Making:
    """One run's work. One build at a time: on two cores two Go builds at once would be slower."""

    def __init__(self, settings: Settings, cache: Cache, answers: Answers, report: Report) -> None:
        self._settings = settings
        self._cache = cache
        self._answers = answers
        self._report = reporter_of(report)
        self._network = Network(settings)

    def make(self, missing: Sequence[Missing]) -> Iterator[Found]:
        """Each tool as soon as it is there. Raises ToolchainError at the first that fails."""
        to_build: list[tuple[Missing, str]] = []
        for one in missing:
            outcome = self._download(one)
            if isinstance(outcome, str):
                to_build.append((one, outcome))
            else:
                yield outcome
        if to_build:
            tools = [one.tool for one, _ in to_build]
            if len(tools) > 1:
                whole = estimate(sum(tool.expected_s for tool in tools))
                self._report(f"{len(tools)} tools must be built, once per machine: {whole}")
            sdk = self._prepare(tools)
            with self._go_caches(sdk) as go_caches:
                if reason := space.why_not_enough(tools, self._settings.cache, go_caches):
                    raise MissingPrerequisite(reason)
                for one, why_not in to_build:
                    yield self._build(one, why_not, sdk, go_caches)

    def _download(self, one: Missing) -> Found | str:
        """The tool, or why its official release cannot be used."""
        tool, wanted = one.tool, one.tool.release
        if wanted is None or machine() not in wanted.files:
            return "" if tool.version == "own" else "it has no official release with a digest"
        if not self._settings.download:
            return "downloads are disabled"
        with self._cache.lock(tool.name, self._report):
            if (entry := cached(tool, one.build_key, self._cache, self._settings)) is not None:
                return of(tool, entry, fresh=False)
            began = time.monotonic()
            with (
                self._report.step(tool.title, "downloading", why=one.why) as step,
                self._cache.staging(tool.name) as staging,
            ):
                try:
                    release.fetch(tool, wanted, staging, self._settings, self._network, step)
                    self._check(tool, staging)
                except (DownloadFailed, ToolchainError) as e:
                    return f"its release cannot be downloaded ({e})"
                entry = self._publish(
                    tool, staging, release_key(tool, self._settings), "downloaded", began
                )
                step.done(_result(entry))
        return of(tool, entry, fresh=True)

    def _prepare(self, tools: Sequence[Tool]) -> Sdk | None:
        """Finds what the builds need before the first one starts."""
        c_compiler.find(self._settings)
        if not any(isinstance(tool.source, GoModule) for tool in tools):
            return None
        return go_sdk.ensure(self._settings, self._answers, self._cache, self._report)

    @contextmanager
    def _go_caches(self, sdk: Sdk | None) -> Iterator[Mapping[str, str]]:
        """GOCACHE and GOMODCACHE: the user's, or ones that are removed after the builds."""
        if not self._settings.clear_go_cache:
            yield {} if sdk is None else go_sdk.caches(sdk, self._settings)
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
            doing = "compiling it" if isinstance(tool.source, CLibrary) else "building it"
            began = time.monotonic()
            with (
                self._report.step(
                    tool.title, doing, why=reasons, expected_s=tool.expected_s
                ) as step,
                self._cache.staging(tool.name) as staging,
            ):
                log = self._cache.log(tool.name)
                builders.build(tool, staging, self._settings, sdk, go_caches, log, step)
                self._check(tool, staging)
                entry = self._publish(tool, staging, one.build_key, "built", began)
                step.done(_result(entry))
        return of(tool, entry, fresh=True)

    def _check(self, tool: Tool, staging: Path) -> None:
        """That the tool runs here and is of the pinned version, before it is published."""
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
                    f"{tool.title}: {binary.name} reports version {answer.strip()[:80]!r}"
                )

    def _publish(self, tool: Tool, staging: Path, key: str, origin: Origin, began: float) -> Entry:
        files = tuple(binary.name for binary in tool.binaries)
        return self._cache.publish(
            staging, tool.name, key, origin=origin, seconds=time.monotonic() - began, files=files
        )


def _result(entry: Entry) -> str:
    megabytes = sum(entry.files.values()) / 1e6
    return (
        f"{entry.origin} in {duration(entry.seconds)}, {megabytes:.1f} MB "
        f"-> {entry.directory / 'bin'}"
    )
