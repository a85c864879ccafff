"""Reads the JSON that other programs print, and refuses everything that is not plain JSON."""

from __future__ import annotations

import codecs
import json
from typing import Any, Final, NoReturn

from slicewright.telemetry.plain import shortened

_LONGEST: Final = 80
"""The number of characters of an output that a message quotes."""
_ENCODINGS: Final = (
    # UTF-32 first: its mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
"""Byte order mark -> encoding. PowerShell's `>` writes UTF-16."""


class NotReadable(ValueError):
    """The output is not the expected JSON. The message names the expected value and the output."""


def read_object(output: bytes | str, expected: str, *, secret: bool = False) -> dict[str, Any]:
    """expected: a noun for messages, such as "the state of a stack". secret: True for an output
    that messages must not quote. Raises NotReadable.
    """
    value = read_json(output, expected, secret=secret)
    if not isinstance(value, dict):
        raise _unexpected(expected, f"JSON that is not an object{_quoted(output, secret)}")
    return value


def read_json(output: bytes | str, expected: str, *, secret: bool = False) -> Any:
    """Like `read_object`, for any value."""
    text = _decoded(output, expected, secret)
    if not text.strip():
        raise _unexpected(expected, "nothing")
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_object_without_duplicates
        )
    except RecursionError:
        problem = f"JSON that is nested too deeply{_quoted(text, secret)}"
        raise _unexpected(expected, problem) from None
    except _Refused as e:
        raise _unexpected(expected, str(e)) from None
    except json.JSONDecodeError as e:
        where = f"line {e.lineno}, column {e.colno}"
        raise _unexpected(expected, f"no JSON ({e.msg}, {where}){_quoted(text, secret)}") from None
    except ValueError:
        # Python refuses to read a number with thousands of digits.
        raise _unexpected(expected, "JSON with a number of thousands of digits") from None


def decoded(content: bytes) -> str:
    """Returns the text of a file or an output, whose byte order mark names its encoding.

    Raises UnicodeDecodeError.
    """
    encoding = next((name for mark, name in _ENCODINGS if content.startswith(mark)), "utf-8")
    return content.decode(encoding)


class _Refused(ValueError):
    """A value that Python reads, but that is not plain JSON."""


def _decoded(output: bytes | str, expected: str, secret: bool) -> str:
    if isinstance(output, str):
        return output
    try:
        return decoded(output)
    except UnicodeDecodeError as e:
        raise _unexpected(
            expected, f"text that is not valid UTF-8 at byte {e.start}{_quoted(output, secret)}"
        ) from None


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"JSON with {name}, which is not a number")


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Refused(f"JSON with the key '{shortened(twice, _LONGEST)}' twice in an object")
    return result


def _unexpected(expected: str, got: str) -> NotReadable:
    return NotReadable(f"expected {expected}, got {got}")


def _quoted(output: bytes | str, secret: bool) -> str:
    if secret:
        return ""
    start = output[: 4 * _LONGEST]
    text = start if isinstance(start, str) else start.decode(errors="replace")
    return f": '{shortened(text.strip(), _LONGEST)}'"
