"""Kubernetes quantities in the API server's canonical form: `1024Mi` is `1Gi`, `0.5` is `500m`.

Source: k8s.io/apimachinery `pkg/api/resource`, Quantity.CanonicalizeBytes.
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal
from typing import Final

_FORM: Final = re.compile(
    r"^([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?$"
)
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {
    -9: "n",
    -6: "u",
    -3: "m",
    0: "",
    3: "k",
    6: "M",
    9: "G",
    12: "T",
    15: "P",
    18: "E",
}
_POWERS: Final = {suffix: power for power, suffix in _DECIMAL.items()}


def canonical(quantity: str | float) -> str:
    """The canonical form. Raises ValueError for an invalid quantity."""
    text = str(quantity)
    match = _FORM.match(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a quantity (a number with a suffix such as m, k, M, Ki, Mi, Gi)"
        )
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix in _BINARY[1:]:
        number *= 1024 ** _BINARY.index(suffix)
        # Below 1024 a binary suffix would lose precision.
        if abs(number) >= 1024:
            return _binary(int(number.to_integral_value(rounding=ROUND_UP)))
        return _decimal(number, exponent=False)
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return _decimal(number.scaleb(int(suffix[1:])), exponent=True)
    return _decimal(number.scaleb(_POWERS[suffix]), exponent=False)


def _binary(number: int) -> str:
    power = 0
    while number and number % 1024 == 0 and power + 1 < len(_BINARY):
        number //= 1024
        power += 1
    return f"{number}{_BINARY[power]}"


def _decimal(number: Decimal, *, exponent: bool) -> str:
    number = number.quantize(Decimal("1e-9"), rounding=ROUND_UP)
    if number == 0:
        return "0"
    power = -9
    mantissa = int(number.scaleb(9))
    while mantissa % 1000 == 0 and power < 18:
        mantissa //= 1000
        power += 3
    if exponent:
        return f"{mantissa}e{power}" if power else str(mantissa)
    return f"{mantissa}{_DECIMAL[power]}"
