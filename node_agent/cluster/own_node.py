"""Reads the agent's own Node from the API server."""

from __future__ import annotations

from dataclasses import dataclass

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.node_agent.cluster.backoff import Backoff
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.cluster.node import read as parse
from slicewright.telemetry import log
from slicewright.telemetry.plain import shortened

_LONGEST_ERROR = 500


@dataclass
class OwnNode:
    """The agent's Node, read no more often than the API server's errors allow."""

    client: Client
    name: str
    backoff: Backoff
    requested_at: float = float("-inf")
    error: str | None = None
    """Why the last request failed, None after a success."""

    def read(self, now: float) -> NodeState | None:
        """The Node, None without an answer or before the next attempt. Logs each error once."""
        if self.backoff.waits(now):
            return None
        self.requested_at = now
        retry_after_s: float | None = None
        try:
            # resourceVersion=0: answered from the API server's cache, without etcd.
            node = parse(self.client.get(path_of("v1", "nodes", self.name), resourceVersion="0"))
        except ApiError as e:
            error, retry_after_s = f"HTTP {e.status}: {e.message}", e.retry_after_s
        except Unreachable as e:
            error = str(e)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            error = f"unexpected answer: {type(e).__name__}: {e}"
        else:
            self.error = None
            self.backoff.succeeded()
            return node
        error = shortened(error, _LONGEST_ERROR)
        self.backoff.failed(now, retry_after_s)
        if error != self.error:
            log.warning("own Node not read", node=self.name, error=error)
        self.error = error
        return None
