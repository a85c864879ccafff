"""Why a rehearsal cannot do what was asked."""

from __future__ import annotations


class RehearsalError(Exception):
    """The environment cannot be made, started or used; the message says what to do."""


class WrongUse(RehearsalError):
    """What was asked for does not exist or can have no effect; nothing is wrong with this host."""


class NoSuchStack(WrongUse):
    """There is no stack file of that name."""


class NotOneStack(WrongUse):
    """The command is about one environment, and it is not clear which."""


class NoSuchFault(WrongUse):
    """The fault could have no effect: the stack has no such pool, node, GPU or profile."""


class NotRunning(RehearsalError):
    """The environment's simulated cloud has ended."""


class DiskFull(RehearsalError):
    """The disk has too little space for an environment, or became full while one ran."""
