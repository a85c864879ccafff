"""Pulumi's engine: the state of a stack, and `pulumi destroy` with its output shown."""

from __future__ import annotations

import codecs
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slicewright.doctor.findings import CannotAsk
from slicewright.processes import signals
from slicewright.processes.foreign_json import NotReadable
from slicewright.processes.programs import Ended, ProgramFailed
from slicewright.processes.pulumi import follow_pulumi, run_pulumi
from slicewright.processes.pulumi_state import read_state

_TICK_S: Final = 1.0
_TAIL: Final = 400
"""The number of last lines that are kept to explain a failure."""
_LONGEST_LINE: Final = 65536
"""A longer line is shown in parts."""
_HELD: Final = (
    "DependencyViolation",
    "ResourceInUseException",
    "resourceInUseByAnotherResource",
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
    "is already being used by",
    "has dependencies and cannot be deleted",
    "has a dependent object",
    "mapped public address",
)
"""Messages of the clouds for "something else must be deleted first". Sources: EC2 user guide, error
codes; Compute Engine, error messages.
"""
_CREDENTIALS: Final = (
    "ExpiredToken",
    "RequestExpired",
    "not able to validate the provided access credentials",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "security token included in the request is",
    "invalid_grant",
    "Invalid Credentials",
    "UNAUTHENTICATED",
    "invalid authentication credentials",
)
"""Messages about refused credentials. EC2 has its own. Sources: IAM API reference, "Common errors";
EC2 user guide, error codes RequestExpired and AuthFailure; google.rpc.Code.
"""
_LOCKED: Final = "the stack is currently locked"
_UNREACHABLE: Final = ("configured Kubernetes cluster is unreachable",)


class EngineFailed(Exception):
    """`pulumi` cannot be run, or refuses. The message says why."""


class NoStack(EngineFailed):
    """There is no such stack."""


@dataclass(frozen=True, kw_only=True)
class DestroyOutcome:
    code: int
    """The exit code of `pulumi destroy`."""
    held: bool
    """The cloud requires that something else is deleted first. A retry may succeed."""
    credentials: bool
    """The credentials are refused."""
    locked: bool
    unreachable: bool
    """The cluster does not answer the Kubernetes provider."""


@dataclass(frozen=True)
class Pulumi:
    """Runs `pulumi` for one stack."""

    stack: str

    def exported(self) -> Mapping[str, Any]:
        """Returns the output of `pulumi stack export`. Raises EngineFailed."""
        try:
            return read_state(self._stack("export"))
        except NotReadable as e:
            raise EngineFailed(f"cannot parse the output of `pulumi stack export`: {e}") from None

    def history(self, page: int) -> bytes:
        """Returns the output of `pulumi stack history --json`, newest first.

        Raises EngineFailed.
        """
        return self._stack("history", "--json", "--page-size", "20", "--page", str(page))

    def replace_state(self, state: Mapping[str, Any]) -> None:
        """state: the result of `exported`, modified. Raises EngineFailed."""
        ended = self._run("stack", "import", standard_input=json.dumps(state))
        if ended.code:
            raise EngineFailed(f"`pulumi stack import` failed: {ended.complaint}")

    def previewed(self) -> bytes:
        """Returns the output of `pulumi preview --json`: the program compared with the state, not
        the cloud.

        The output of a failed preview contains the reason. Raises EngineFailed.
        """
        return self._json("preview", "--refresh=false")

    def refreshed(self) -> bytes:
        """Returns the changes that a refresh would write into the state, compared with the cloud.

        Otherwise like `previewed`.
        """
        return self._json("refresh", "--preview-only")

    def _stack(self, command: str, *flags: str) -> bytes:
        ended = self._run("stack", command, *flags)
        if ended.code:
            if "no stack named" in ended.complaint:
                raise NoStack(
                    f"stack {self.stack} does not exist: it was never deployed, or was removed"
                )
            raise EngineFailed(f"`pulumi stack {command}` failed: {ended.complaint}")
        return ended.stdout

    def _json(self, command: str, *flags: str) -> bytes:
        ended = self._run(command, *flags, "--json")
        if ended.code and not ended.stdout.strip():
            raise EngineFailed(f"`pulumi {command}` failed: {ended.complaint}")
        return ended.stdout

    def _run(self, *arguments: str, standard_input: str = "") -> Ended:
        """Raises EngineFailed."""
        try:
            return run_pulumi(
                *arguments,
                "--non-interactive",
                "--stack",
                self.stack,
                standard_input=standard_input,
            )
        except ProgramFailed as e:
            raise EngineFailed(str(e)) from None

    def destroy(
        self,
        *,
        without_cluster: bool,
        show: Callable[[str], None],
        meanwhile: Callable[[], None],
    ) -> DestroyOutcome:
        """Runs `pulumi destroy --yes` to its end.

        show: gets each line of the output. meanwhile: called every second without output. If it
        raises CannotAsk, that is raised once Pulumi has ended. without_cluster: objects in the
        cluster count as gone. Raises EngineFailed. An interrupt reaches pulumi, too, which ends the
        step at hand.
        """
        gone = {"PULUMI_K8S_DELETE_UNREACHABLE": "true"} if without_cluster else {}
        command = ("destroy", "--yes", "--skip-preview", "--non-interactive")
        output = _Output(show, meanwhile)
        try:
            ended = follow_pulumi(
                *command,
                "--stack",
                self.stack,
                receive=output.add,
                idle=output.tick,
                variables=gone,
            )
        except ProgramFailed as e:
            raise EngineFailed(str(e)) from None
        output.flush()
        if ended.signal is not None:
            raise signals.Interrupted(ended.signal)
        if output.failure is not None:
            raise output.failure
        return judged(ended.code, "\n".join(output.tail))


@dataclass
class _Output:
    """Shows the output of a command line by line, and acts in the silence between the lines."""

    show: Callable[[str], None]
    meanwhile: Callable[[], None]
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL))
    failure: CannotAsk | None = None
    """The failure of `meanwhile`, which is then no longer called."""
    _line: str = ""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    _last: float = field(default_factory=time.monotonic)
    """The time of the last line. Pulumi's progress adds a dot to its line every second: that is
    silence, too.
    """

    def add(self, part: bytes) -> None:
        *lines, self._line = (self._line + self._decoder.decode(part)).split("\n")
        if len(self._line) > _LONGEST_LINE:
            lines, self._line = [*lines, self._line], ""
        for line in lines:
            self.show(line)
            self.tail.append(line)
        if lines:
            self._last = time.monotonic()

    def flush(self) -> None:
        """Shows the last line, which may have no end."""
        if self._line:
            self.add(b"\n")

    def tick(self) -> None:
        if self.failure is None and time.monotonic() > self._last + _TICK_S:
            self.failure = _tried(self.meanwhile)
            self._last = time.monotonic()


def judged(code: int, output: str) -> DestroyOutcome:
    """Interprets the end of a `pulumi destroy`. output: its last lines."""
    failed = code != 0
    return DestroyOutcome(
        code=code,
        held=failed and any(words in output for words in _HELD),
        credentials=failed and any(words in output for words in _CREDENTIALS),
        locked=failed and _LOCKED in output,
        unreachable=failed and any(words in output for words in _UNREACHABLE),
    )


def _tried(act: Callable[[], None]) -> CannotAsk | None:
    try:
        act()
    except CannotAsk as e:
        return e
    return None
