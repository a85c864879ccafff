"""The parts of a Python module that other code uses, for archives that are compiled at each start.

The text of what stays is unchanged, so equal sources give equal results on every version of Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

Definition = ast.Assign | ast.FunctionDef | ast.ClassDef


class CannotTell(Exception):
    """A module has a statement on its top level of which it is not known who needs it."""


def names_of(module: str, sources: Iterable[str]) -> frozenset[str]:
    """What the sources name of a module that they import whole: `x` for `module.x`."""
    return frozenset(
        node.attr
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == module
    )


def only(names: frozenset[str], source: str) -> str:
    """The module without what neither `names` nor anything that they need uses.

    What stands before the first statement, such as a licence, stays. Calls on the top level, which
    set up other parts, go. Raises CannotTell for a module with other statements, and KeyError for a
    name that it does not define.
    """
    statements = ast.parse(source).body
    definitions: dict[str, list[Definition]] = {}
    for statement in statements:
        if isinstance(statement, Definition):
            for name in _defined(statement):
                definitions.setdefault(name, []).append(statement)
        elif not isinstance(statement, ast.Import | ast.ImportFrom | ast.Expr):
            raise CannotTell(f"line {statement.lineno}: {type(statement).__name__}")
    needed: set[str] = set()
    used: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            own = {n for one in definitions[name] for n in _used(one)}
            used |= own
            waiting += own & definitions.keys()
    lines = source.splitlines(keepends=True)
    kept = [s for s in statements if _is_needed(s, needed, used)]
    head = lines[: _first_line(statements[0]) - 1]
    return "".join(
        [*head, *(line for s in kept for line in lines[_first_line(s) - 1 : s.end_lineno])]
    )


def _is_needed(statement: ast.stmt, needed: set[str], used: set[str]) -> bool:
    """needed: names of definitions. used: those that their code names."""
    if isinstance(statement, Definition):
        return not needed.isdisjoint(_defined(statement))
    if isinstance(statement, ast.Import | ast.ImportFrom):
        bound = {(a.asname or a.name).partition(".")[0] for a in statement.names}
        return "*" in bound or not used.isdisjoint(bound)
    return False


def _defined(statement: Definition) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))
    else:
        yield statement.name


def _used(statement: Definition) -> Iterator[str]:
    return (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])
