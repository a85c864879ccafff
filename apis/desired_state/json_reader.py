"""Typed values out of parsed JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slicewright.apis.desired_state.problems import abbreviate


class Reader:
    """Takes typed values out of parsed JSON and collects every misfit with its path."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def mapping(
        self, raw: Any, path: str, *, required: Sequence[str], optional: Sequence[str] = ()
    ) -> dict[str, Any]:
        if not isinstance(raw, dict):
            self.problems.append(f"{path or 'file'}: must be an object, is {abbreviate(raw)}")
            return {}
        prefix = f"{path}." if path else ""
        for key in raw:
            if key not in required and key not in optional:
                self.problems.append(
                    f"{prefix}{key}: unknown key; the keys are {', '.join((*required, *optional))}"
                )
        for key in required:
            if key not in raw:
                self.problems.append(f"{prefix}{key}: missing")
        return raw

    def text(self, raw: Any, path: str) -> str:
        if isinstance(raw, str):
            return raw
        self.problems.append(f"{path}: must be a string, is {abbreviate(raw)}")
        return ""

    def integer(self, raw: Any, path: str) -> int:
        # bool is a subclass of int.
        if isinstance(raw, int) and not isinstance(raw, bool):
            return raw
        self.problems.append(f"{path}: must be a whole number, is {abbreviate(raw)}")
        return 0

    def truth(self, raw: Any, path: str) -> bool:
        if isinstance(raw, bool):
            return raw
        self.problems.append(f"{path}: must be true or false, is {abbreviate(raw)}")
        return False

    def items(self, raw: Any, path: str) -> list[Any]:
        if isinstance(raw, list):
            return raw
        self.problems.append(f"{path}: must be a list, is {abbreviate(raw)}")
        return []

    def counts(self, raw: Any, path: str) -> dict[str, int]:
        if not isinstance(raw, dict):
            self.problems.append(
                f"{path}: must be an object of whole numbers, is {abbreviate(raw)}"
            )
            return {}
        return {str(key): self.integer(value, f"{path}.{key}") for key, value in raw.items()}

    def texts(self, raw: Any, path: str) -> dict[str, tuple[str, ...]]:
        if not isinstance(raw, dict):
            self.problems.append(f"{path}: must be an object of lists, is {abbreviate(raw)}")
            return {}
        return {
            str(key): tuple(
                self.text(element, f"{path}.{key}[{i}]")
                for i, element in enumerate(self.items(elements, f"{path}.{key}"))
            )
            for key, elements in raw.items()
        }

    def choice(self, raw: Any, path: str, allowed: tuple[str, ...]) -> Any:
        if raw not in allowed:
            self.problems.append(
                f"{path}: must be one of {', '.join(allowed)}, is {abbreviate(raw)}"
            )
        return raw
