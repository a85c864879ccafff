"""Continuous batching without a model: who waits, who runs, and who gets the next tokens. Pure.

Time passes only by `advance`, so that the same requests always get the same tokens.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

_PROMPT_TOKENS_PER_TOKEN: Final = 20
"""Tokens of a prompt that are read in the time in which one is generated. Chosen, not measured."""


@dataclass(kw_only=True)
class Generation:
    """One request in the engine."""

    prompt_tokens: int
    answer_tokens: int
    """Tokens to generate."""
    generated: int = 0
    unread: float = 0.0
    """Of the prompt, in units of a generated token."""

    @property
    def done(self) -> bool:
        return self.generated >= self.answer_tokens


@dataclass
class Engine:
    """`submit` requests, then `advance` the time; `running` and `waiting` are vLLM's."""

    tokens_per_second: float
    max_num_seqs: int
    running: deque[Generation] = field(default_factory=deque)
    waiting: deque[Generation] = field(default_factory=deque)
    _saved: float = 0.0

    def submit(self, *, prompt_tokens: int, answer_tokens: int) -> Generation:
        unread = prompt_tokens / _PROMPT_TOKENS_PER_TOKEN
        generation = Generation(
            prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, unread=unread
        )
        self.waiting.append(generation)
        self._admit()
        return generation

    def abort(self, generation: Generation) -> None:
        """Its client has gone."""
        self.running = deque(other for other in self.running if other is not generation)
        self.waiting = deque(other for other in self.waiting if other is not generation)
        self._admit()

    @property
    def held_tokens(self) -> int:
        """Of all contexts that are in memory: what was read and generated of those that run."""
        read = (
            generation.prompt_tokens - generation.unread * _PROMPT_TOKENS_PER_TOKEN
            for generation in self.running
        )
        return round(sum(read)) + sum(generation.generated for generation in self.running)

    @property
    def idle(self) -> bool:
        return not self.running and not self.waiting

    def advance(self, seconds: float) -> None:
        """Shares out the tokens of that time: prompts first, then one token each in turn."""
        budget = self._saved + seconds * self.tokens_per_second
        while self.running:
            reading = next(
                (generation for generation in self.running if generation.unread > 0), None
            )
            if reading is not None:
                read = min(reading.unread, budget)
                reading.unread -= read
                budget -= read
                if reading.unread > 0:
                    break
            elif budget >= 1:
                budget -= 1
                generation = self.running.popleft()
                generation.generated += 1
                if not generation.done:
                    self.running.append(generation)
                self._admit()
            else:
                break
        # What an idle GPU could have made is lost.
        self._saved = budget if self.running else 0.0

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.max_num_seqs:
            self.running.append(self.waiting.popleft())
