"""Long-lived processes of a rehearsal: each has a record, by which a later run finds and ends it.

A process is identified by its pid, its start time and the boot id, because pids are reused and
names are not unique. Its descendants are identified by two environment variables that `start` sets
and that every child inherits.
"""

from slicewright.rehearsal.host.processes.ending import end_leftovers, stop, stop_all
from slicewright.rehearsal.host.processes.errors import NotStarted, ProcessError, StillRunning
from slicewright.rehearsal.host.processes.marks import ENVIRONMENT_VARIABLE, PROCESS_VARIABLE, marks
from slicewright.rehearsal.host.processes.records import Recorded, find, is_alive, recorded
from slicewright.rehearsal.host.processes.starting import AlreadyRunning, start

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
