"""Pulumi's engine: the state of a stack, and `pulumi destroy` with its output shown."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from slicewright.doctor.findings import CannotAsk

_TICK_S: Final = 1.0
_TAIL: Final = 400
"""The number of last lines that are kept to explain a failure."""
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
        text = self._stack("export")
        try:
            state: Mapping[str, Any] = json.loads(text)
        except ValueError as e:
            raise EngineFailed(f"cannot parse the output of `pulumi stack export`: {e}") from None
        return state

    def history(self, page: int) -> str:
        """Returns the output of `pulumi stack history --json`, newest first.

        Raises EngineFailed.
        """
        return self._stack("history", "--json", "--page-size", "20", "--page", str(page))

    def replace_state(self, state: Mapping[str, Any]) -> None:
        """state: the result of `exported`, modified. Raises EngineFailed."""
        done = self._run("stack", "import", input_text=json.dumps(state))
        if done.returncode:
            raise EngineFailed(f"`pulumi stack import` failed: {' '.join(done.stderr.split())}")

    def previewed(self) -> str:
        """Returns the output of `pulumi preview --json`: the program compared with the state, not
        the cloud.

        The output of a failed preview contains the reason. Raises EngineFailed.
        """
        return self._json("preview", "--refresh=false")

    def refreshed(self) -> str:
        """Returns the changes that a refresh would write into the state, compared with the cloud.

        Otherwise like `previewed`.
        """
        return self._json("refresh", "--preview-only")

    def _stack(self, command: str, *flags: str) -> str:
        done = self._run("stack", command, *flags)
        if done.returncode:
            if "no stack named" in done.stderr:
                raise NoStack(
                    f"stack {self.stack} does not exist: it was never deployed, or was removed"
                )
            raise EngineFailed(f"`pulumi stack {command}` failed: {done.stderr.strip()}")
        return done.stdout

    def _json(self, command: str, *flags: str) -> str:
        done = self._run(command, *flags, "--json")
        if done.returncode and not done.stdout.strip():
            reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise EngineFailed(f"`pulumi {command}` failed: {reason}")
        return done.stdout

    def _run(self, *arguments: str, input_text: str = "") -> subprocess.CompletedProcess[str]:
        """input_text: the text for its standard input. Raises EngineFailed."""
        try:
            return subprocess.run(
                ["pulumi", *arguments, "--non-interactive", "--stack", self.stack],
                env=_environment(),
                input=input_text,
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as e:
            raise _not_started(e) from None

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
        command = ["pulumi", "destroy", "--yes", "--skip-preview", "--non-interactive"]
        try:
            process = subprocess.Popen(
                [*command, "--stack", self.stack],
                env={**_environment(), **gone},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as e:
            raise _not_started(e) from None
        return _follow(process, show, meanwhile)


def _follow(
    process: subprocess.Popen[str], show: Callable[[str], None], meanwhile: Callable[[], None]
) -> DestroyOutcome:
    """Shows the output until the process ends, then raises the failure of `meanwhile`, if any."""
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    tail: list[str] = []
    failure: CannotAsk | None = None
    try:
        while True:
            try:
                line = lines.get(timeout=_TICK_S)
            except queue.Empty:
                failure = failure or _tried(meanwhile)
                continue
            if line is None:
                break
            show(line)
            tail = [*tail[-_TAIL:], line]
    finally:
        # An interrupt has reached pulumi, too. Wait: it saves its state.
        code = process.wait()
    if failure is not None:
        raise failure
    return judged(code, "\n".join(tail))


def _not_started(error: OSError) -> EngineFailed:
    return EngineFailed(f"cannot start pulumi ({error.strerror}); install it, or fix PATH")


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


def _read(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def _environment() -> dict[str, str]:
    return {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
