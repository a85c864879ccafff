"""A model's memory is the share of each GPU or partition that one replica needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class ModelMemory:
    """MiB that one replica needs of each of its GPUs or partitions."""

    weights_mib: int
    overhead_mib: int
    context_bytes_per_token: int | None
    """None: the model's shape is not stated."""
    context_tokens: int | None
    """Tokens of the longest context. None: the model's own limit, which is unknown."""

    @property
    def context_mib(self) -> int:
        """Memory of one sequence of the longest context, 0 if unknown: vLLM does not start if it
        does not fit.
        """
        if self.context_bytes_per_token is None or self.context_tokens is None:
            return 0
        return math.ceil(self.context_bytes_per_token * self.context_tokens / MIB)

    @property
    def needed_mib(self) -> int:
        return self.weights_mib + self.context_mib + self.overhead_mib

    def tokens_in(self, usable_mib: int) -> int | None:
        """Tokens of context that fit with the weights, in full blocks of 16. None: unknown."""
        free_mib = usable_mib - self.weights_mib - self.overhead_mib
        if self.context_bytes_per_token is None:
            return None
        return max(free_mib * MIB // self.context_bytes_per_token // 16 * 16, 0)
