"""The parts of a Python module that other code uses, for archives that are compiled at each start.

The text of the remaining parts is unchanged, so equal sources give equal results on every version
of Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

Definition = ast.Assign | ast.FunctionDef | ast.ClassDef


class CannotTell(Exception):
    """A module has a top-level statement whose users cannot be determined."""


def names_of(module: str, sources: Iterable[str]) -> frozenset[str]:
    """The attributes of a module that the sources use: `x` for `module.x`."""
    return frozenset(
        node.attr
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == module
    )


def only(names: frozenset[str], source: str) -> str:
    """Removes the parts of a module that neither `names` nor their dependencies use.

    Text before the first statement, such as a licence, is kept. Top-level calls, which set up
    other parts, are removed. Raises CannotTell for a module with other statements, and KeyError
    for a name that it does not define.
    """
    statements = ast.parse(source).body
    definitions: dict[str, list[Definition]] = {}
    for statement in statements:
        if isinstance(statement, Definition):
            for name in _defined_names(statement):
                definitions.setdefault(name, []).append(statement)
        elif not isinstance(statement, ast.Import | ast.ImportFrom | ast.Expr):
            raise CannotTell(f"line {statement.lineno}: {type(statement).__name__}")
    needed, used = _reachable(names, definitions)
    lines = source.splitlines(keepends=True)
    remaining = [s for s in statements if _is_needed(s, needed, used)]
    head = lines[: _first_line(statements[0]) - 1]
    return "".join(
        [*head, *(line for s in remaining for line in lines[_first_line(s) - 1 : s.end_lineno])]
    )


def _reachable(
    names: frozenset[str], definitions: Mapping[str, Sequence[Definition]]
) -> tuple[set[str], set[str]]:
    """The names whose definitions are needed, and all names that these definitions use."""
    needed: set[str] = set()
    used: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            references = {n for definition in definitions[name] for n in _used_names(definition)}
            used |= references
            waiting += references & definitions.keys()
    return needed, used


def _is_needed(statement: ast.stmt, needed: set[str], used: set[str]) -> bool:
    """needed: names of definitions. used: names that the code of these definitions uses."""
    if isinstance(statement, Definition):
        return not needed.isdisjoint(_defined_names(statement))
    if isinstance(statement, ast.Import | ast.ImportFrom):
        bound = {(a.asname or a.name).partition(".")[0] for a in statement.names}
        return "*" in bound or not used.isdisjoint(bound)
    return False


def _defined_names(statement: Definition) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
    else:
        yield statement.name


def _used_names(statement: Definition) -> Iterator[str]:
    return (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])
