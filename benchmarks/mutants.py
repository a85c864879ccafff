"""Mutants of one Python source: small changes that its tests should notice.

Left alone, because no test of behaviour can or should notice them: annotations, decorators, base
classes, docstrings, imports, assertions (also `strict` of `zip`), patterns of `case`, and text with
white space in it (messages for people).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType

_SKIPPED_FIELDS = frozenset(
    {"annotation", "bases", "decorator_list", "format_spec", "pattern", "returns"}
)
_COMPARISONS: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_MOST_SHOWN = 100
_Set = Callable[[ast.AST], None]


@dataclass(frozen=True)
class Mutant:
    """One change. `line` and `change` name it independently of line numbers."""

    function: str
    """Qualified name of the function around it; `<module>` outside of all."""
    number: int
    """Line number."""
    line: str
    """That line of the source, stripped."""
    change: str
    """`before → after`; with `(2)`, `(3)` … where the line has the same change more than once."""
    code: CodeType


@dataclass(frozen=True)
class _Edit:
    function: str
    number: int
    change: str
    apply: Callable[[], None]
    undo: Callable[[], None]


def mutants_of(source: str, path: str) -> Iterator[Mutant]:
    """Every mutant of `source`, in its order; `path` goes into their tracebacks."""
    tree = ast.parse(source)
    lines = source.splitlines()
    seen: Counter[tuple[str, str, str]] = Counter()
    for edit in list(_Edits().of(tree)):
        line = lines[edit.number - 1].strip()
        seen[edit.function, line, edit.change] += 1
        nth = seen[edit.function, line, edit.change]
        edit.apply()
        try:
            code = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        finally:
            edit.undo()
        yield Mutant(
            edit.function,
            edit.number,
            line,
            edit.change if nth == 1 else f"{edit.change} ({nth})",
            code,
        )


class _Edits:
    def __init__(self) -> None:
        self._scope: list[str] = []

    def of(self, node: ast.AST) -> Iterator[_Edit]:
        """The edits below a node. Its own are made by whoever holds it."""
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if named:
            self._scope.append(node.name)  # type: ignore[attr-defined]
        for field, value in ast.iter_fields(node):
            if field in _SKIPPED_FIELDS:
                continue
            if isinstance(value, ast.AST):
                yield from self._child(node, value, _attribute(node, field), field)
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    if isinstance(item, ast.AST):
                        yield from self._child(node, item, _item(value, i), field)
        if named:
            self._scope.pop()

    def _child(self, parent: ast.AST, node: ast.AST, put: _Set, field: str) -> Iterator[_Edit]:
        if _left_alone(node) or (isinstance(parent, ast.JoinedStr) and _is_text(node)):
            return
        conditional = isinstance(parent, ast.If | ast.While | ast.IfExp) and field == "test"
        if isinstance(node, ast.expr):
            if (conditional or field in ("ifs", "guard")) and not _negated_anyway(node):
                yield self._edit(put, node, ast.UnaryOp(ast.Not(), node))
            if field == "ifs":
                yield self._edit(put, node, ast.Constant(True))
            if isinstance(parent, ast.Return) and not _is_none(node):
                yield self._edit(put, node, ast.Constant(None), "return None")
            for new in _expressions(node):
                yield self._edit(put, node, new)
            if isinstance(node, ast.Call):
                for at, new, change in _calls(node):
                    yield self._edit(put, node, new, change, at)
        elif isinstance(node, ast.stmt):
            for statement in _statements(node):
                yield self._edit(put, node, statement)
        yield from self.of(node)

    def _edit(
        self,
        put: _Set,
        old: ast.expr | ast.stmt,
        new: ast.AST,
        change: str | None = None,
        at: ast.expr | None = None,
    ) -> _Edit:
        ast.copy_location(new, old)
        return _Edit(
            ".".join(self._scope) or "<module>",
            (at or old).lineno,
            change or f"{_shown(old)} → {_shown(new)}",
            lambda: put(new),
            lambda: put(old),
        )


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    """What may stand in place of an expression."""
    match node:
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                for other in _COMPARISONS[type(op)]:
                    yield ast.Compare(left, [*ops[:i], other(), *ops[i + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
            for i in range(len(values)):
                rest = values[:i] + values[i + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.BinOp(left, op, right):
            if type(op) in _OPERATORS and not (_is_text(left) or _is_text(right)):
                yield ast.BinOp(left, _OPERATORS[type(op)](), right)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(str() as value) if not any(map(str.isspace, value)):
            yield ast.Constant(f"{value}XX")
        case ast.Subscript(value, ast.Slice(lower, upper, step), ctx):
            if lower:
                yield ast.Subscript(value, ast.Slice(None, upper, step), ctx)
            if upper:
                yield ast.Subscript(value, ast.Slice(lower, None, step), ctx)
        case _:
            pass


def _calls(node: ast.Call) -> Iterator[tuple[ast.expr, ast.expr, str]]:
    """Where in the call, what may stand in its place, and how to say it."""
    function, positional, keywords = node.func, node.args, node.keywords
    name = function.id if isinstance(function, ast.Name) else ""
    if name in _FUNCTIONS:
        other = _FUNCTIONS[name]
        kept = [] if name == "sorted" else keywords
        new = ast.Call(ast.copy_location(ast.Name(other, ast.Load()), node), positional, kept)
        yield node, new, f"{name} → {other}"
    # Of our own functions most arguments are required: leaving one out proves nothing.
    if name in _FUNCTIONS or isinstance(function, ast.Attribute):
        removable = range(len(positional)) if name else [len(positional) - 1]
        for i in removable if len(positional) > 1 else ():
            rest = positional[:i] + positional[i + 1 :]
            yield positional[i], ast.Call(function, rest, keywords), _without(positional[i])
    for i, keyword in enumerate(keywords):
        if keyword.arg is None or keyword.arg == "strict":  # of zip: an assertion
            continue
        if not name[:1].isupper():
            others = keywords[:i] + keywords[i + 1 :]
            change = _without(keyword)
        elif not isinstance(keyword.value, ast.Constant):
            none = ast.copy_location(ast.Constant(None), keyword.value)
            others = [*keywords[:i], ast.keyword(keyword.arg, none), *keywords[i + 1 :]]
            change = f"{_shown(keyword)} → {keyword.arg}=None"
        else:
            continue
        yield keyword.value, ast.Call(function, positional, others), change


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    """What may stand in place of a statement."""
    match node:
        case ast.Expr() | ast.Raise() | ast.Delete():
            yield ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript(), *_]):
            yield ast.Pass()
        case ast.AugAssign(target, op, value):
            yield ast.Pass()
            if type(op) in _OPERATORS and not _is_text(value):
                yield ast.AugAssign(target, _OPERATORS[type(op)](), value)
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
        case _:
            pass


def _left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.Import() | ast.ImportFrom():
            return True
        case ast.keyword("strict"):
            return True
        case ast.Expr(ast.Constant()):  # a docstring
            return True
        case ast.Assign([ast.Name("__all__")]):
            return True
        case ast.Subscript(ast.Name("Literal")):
            return True
        case ast.Assign(value=ast.BinOp(ast.Name() | ast.BinOp(), ast.BitOr(), ast.Name(name))):
            return name[0].isupper()  # a union of types
        case _:
            return False


def _negated_anyway(node: ast.expr) -> bool:
    return (isinstance(node, ast.Compare) and len(node.ops) == 1) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _is_text(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Constant(str()):
            return True
        case ast.IfExp(_, body, orelse):
            return _is_text(body) or _is_text(orelse)
        case _:
            return False


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _attribute(node: ast.AST, field: str) -> _Set:
    return lambda new: setattr(node, field, new)


def _item(items: list[ast.AST], i: int) -> _Set:
    def put(new: ast.AST) -> None:
        items[i] = new

    return put


def _without(argument: ast.AST) -> str:
    return f"without the argument {_shown(argument)}"


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
