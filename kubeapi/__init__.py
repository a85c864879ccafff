"""A small Kubernetes API client: requests, lists and watches.

Own code and not a library, because the agent and the controller travel as zipapps of a few hundred
kilobytes: the official `kubernetes` client is megabytes of generated code and most of an idle
process's memory, and lightkube needs compiled packages.
"""

from kubeapi.client import ApiError, Client, JsonObject, Unreachable
from kubeapi.watch import Event, list_and_watch

__all__ = ["ApiError", "Client", "Event", "JsonObject", "Unreachable", "list_and_watch"]
