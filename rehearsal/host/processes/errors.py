"""Errors of starting and ending processes."""


class ProcessError(Exception):
    """A recorded process cannot be started or ended; the message says which and why."""


class NotStarted(ProcessError):
    """The program could not be started."""


class StillRunning(ProcessError):
    """Processes survived SIGKILL."""
