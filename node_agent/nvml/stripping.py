"""Removes from a large module what a process does not use of it."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any


def strip(module: ModuleType, *entries: Callable[..., Any], keep: Iterable[str]) -> None:
    """Leaves in `module` what the modules of `entries` name, and what that needs in turn.

    keep: names that stay although no code names them. For a process that calls only `entries`.
    """
    own = [
        code
        for entry in entries
        for value in vars(sys.modules[entry.__module__]).values()
        if getattr(value, "__module__", None) == entry.__module__
        for code in _code_of(value)
    ]
    needed = _reached(module, _names_of_code(own) | set(keep))
    for name in list(vars(module)):
        if name not in needed and not name.startswith("__"):
            delattr(module, name)
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:
        pass  # musl has none: the memory is reused instead of returned


def _reached(module: ModuleType, wanted: set[str]) -> set[str]:
    """The wanted names of `module`, and those that their code or their classes' code uses."""
    space = vars(module)
    reached: set[str] = set()
    waiting = [name for name in wanted if name in space]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        waiting += [n for n in _names_of_code(_code_of(space[name])) if n in space]
    return reached


def _names_of_code(codes: Iterable[CodeType]) -> set[str]:
    names: set[str] = set()
    for code in codes:
        names.update(code.co_names)
        names |= _names_of_code(c for c in code.co_consts if isinstance(c, CodeType))
    return names


def _code_of(value: Any) -> Iterator[CodeType]:
    """Of a function, of those that it wraps, and of a class's methods."""
    if isinstance(value, type):
        methods = [m for base in value.__mro__ for m in vars(base).values()]
        yield from (m.__code__ for m in methods if isinstance(m, FunctionType))
    while value is not None and not isinstance(value, type):
        if isinstance(value, FunctionType):
            yield value.__code__
        value = getattr(value, "__wrapped__", None)
