"""Why a tool cannot be obtained."""

from __future__ import annotations


class ToolchainError(Exception):
    """A tool cannot be obtained: which, why, and what to do. `exit_code`: for commands."""

    exit_code = 1


class MissingPrerequisite(ToolchainError):
    """The machine lacks a C compiler, disk space, or both Go and every way to install Go."""

    exit_code = 3
