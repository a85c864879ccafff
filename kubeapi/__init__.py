"""A small Kubernetes API client: requests, lists, watches, kubeconfigs and leader election.

Not a library, because agent and controller are delivered as zipapps of a few hundred kB: the
official `kubernetes` client is megabytes of generated code and takes most of an idle process's
memory, and lightkube needs compiled packages.
"""

from slicewright.kubeapi.client import ApiError, Client, JsonObject, Unreachable
from slicewright.kubeapi.watch import Event, list_all, list_and_watch

__all__ = ["ApiError", "Client", "Event", "JsonObject", "Unreachable", "list_all", "list_and_watch"]
