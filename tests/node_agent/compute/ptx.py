"""An interpreter of the few PTX instructions that the project's kernels use.

It runs one thread after another, which gives the same result for kernels whose threads share only
an atomic addition. Source: NVIDIA, Parallel Thread Execution ISA.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_64, _32 = (1 << 64) - 1, (1 << 32) - 1


@dataclass(frozen=True)
class Kernel:
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    labels: Mapping[str, int]


def kernels(text: str) -> dict[str, Kernel]:
    """The entries of a module, by name."""
    entries = re.findall(
        r"\.visible \.entry (\w+)\(([^)]*)\)\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", text
    )
    return {name: _kernel(parameters, body) for name, parameters, body in entries}


def _kernel(parameters: str, text: str) -> Kernel:
    body: list[str] = []
    labels: dict[str, int] = {}
    for line in (line.strip() for line in text.splitlines()):
        if line.endswith(":"):
            labels[line[:-1]] = len(body)
        elif line and not line.startswith(".reg"):
            body.append(line.rstrip(";"))
    names = tuple(part.split()[-1] for part in parameters.split(","))
    return Kernel(names, tuple(body), labels)


def run_thread(
    kernel: Kernel,
    arguments: Sequence[int],
    memory: dict[int, int],
    *,
    block: int,
    thread: int,
    blocks: int,
    threads: int,
) -> None:
    """Runs one thread. memory: 32-bit words by address."""
    special = {"%ctaid.x": block, "%tid.x": thread, "%nctaid.x": blocks, "%ntid.x": threads}
    registers: dict[str, int] = dict(special)
    values = dict(zip(kernel.parameters, arguments, strict=True))
    at = 0
    while True:
        words = kernel.body[at].split(None, 1)
        at += 1
        if words[0].startswith("@"):
            predicate, rest = words
            if not registers[predicate[1:]]:
                continue
            words = rest.split(None, 1)
        name, operands = words[0], re.findall(r"[%\w.]+", words[1] if words[1:] else "")
        if name == "ret":
            return
        if name == "bra":
            at = kernel.labels[operands[0]]
        else:
            _step(name, operands, registers, values, memory)


def _step(
    name: str,
    operands: list[str],
    registers: dict[str, int],
    parameters: Mapping[str, int],
    memory: dict[int, int],
) -> None:
    def value(operand: str) -> int:
        return int(operand) if operand.isdigit() else registers[operand]

    target, *inputs = operands
    if name.startswith("ld.param"):
        registers[target] = parameters[inputs[0]]
    elif name == "mov.b64":  # {low, high}, wide
        wide = value(operands[2])
        registers[operands[0]], registers[operands[1]] = wide & _32, wide >> 32
    elif name == "st.global.u32":
        memory[value(target)] = value(inputs[0])
    elif name == "ld.global.u32":
        registers[target] = memory.get(value(inputs[0]), 0)
    elif name == "red.global.add.u32":
        memory[value(target)] = memory.get(value(target), 0) + value(inputs[0]) & _32
    else:
        registers[target] = _ARITHMETIC[name](*map(value, inputs))


_ARITHMETIC: Mapping[str, Callable[..., int]] = {
    "cvta.to.global.u64": lambda a: a,
    "mov.u32": lambda a: a,
    "cvt.u64.u32": lambda a: a,
    "mad.wide.u32": lambda a, b, c: a * b + c & _64,
    "mul.wide.u32": lambda a, b: a * b & _64,
    "mad.lo.u32": lambda a, b, c: a * b + c & _32,
    "xor.b32": lambda a, b: a ^ b,
    "shl.b64": lambda a, b: a << b & _64,
    "add.u64": lambda a, b: a + b & _64,
    "setp.ge.u64": lambda a, b: a >= b,
    "setp.ne.u32": lambda a, b: a != b,
}
