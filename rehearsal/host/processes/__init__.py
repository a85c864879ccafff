"""Long-lived processes of a rehearsal, each on record: started without a gap, found again by a
later run, ended for certain.

A process is known by its pid together with the kernel's start time and the boot, never by its name:
a pid is used again, a name is anybody's. Its descendants are known by two environment variables
that `start` sets and that every child inherits.
"""

from rehearsal.host.processes.ending import end_leftovers, stop, stop_all
from rehearsal.host.processes.errors import NotStarted, ProcessError, StillRunning
from rehearsal.host.processes.marks import ENVIRONMENT_VARIABLE, PROCESS_VARIABLE, marks
from rehearsal.host.processes.records import Recorded, find, is_alive, recorded
from rehearsal.host.processes.starting import AlreadyRunning, start

__all__ = [
    "ENVIRONMENT_VARIABLE",
    "PROCESS_VARIABLE",
    "AlreadyRunning",
    "NotStarted",
    "ProcessError",
    "Recorded",
    "StillRunning",
    "end_leftovers",
    "find",
    "is_alive",
    "marks",
    "recorded",
    "start",
    "stop",
    "stop_all",
]
