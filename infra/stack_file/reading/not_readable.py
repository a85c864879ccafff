"""The error for an unreadable stack file."""

from __future__ import annotations


class NotReadable(Exception):
    """The stack file cannot be read, is not YAML, or has no fleet. The message names the place."""
