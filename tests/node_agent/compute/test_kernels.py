"""The kernels' text does what the host expects of it, by an interpreter of PTX."""

from __future__ import annotations

import re

import pytest

from slicewright.node_agent.compute.kernels import CHECK, PTX, PUT, WORD_BYTES, word
from tests.node_agent.compute import ptx

KERNELS = ptx.kernels(PTX.decode())
PUT_KERNEL, CHECK_KERNEL = KERNELS[PUT.decode()], KERNELS[CHECK.decode()]
BUFFER, COUNTER, SEED = 0x1000, 0x10, 0xCAFE1234
BLOCKS, THREADS = 2, 3


def run_all(kernel: ptx.Kernel, arguments: tuple[int, ...], memory: dict[int, int]) -> None:
    for block in range(BLOCKS):
        for thread in range(THREADS):
            ptx.run_thread(
                kernel,
                arguments,
                memory,
                block=block,
                thread=thread,
                blocks=BLOCKS,
                threads=THREADS,
            )


@pytest.mark.parametrize("words", [1, 5, 6, 7, 40])
def test_put_writes_every_word_of_the_buffer_and_no_other(words: int) -> None:
    memory: dict[int, int] = {}
    run_all(PUT_KERNEL, (BUFFER, words, SEED), memory)
    assert memory == {BUFFER + WORD_BYTES * i: word(i, SEED) for i in range(words)}


def test_check_counts_each_wrong_word_once() -> None:
    memory: dict[int, int] = {}
    run_all(PUT_KERNEL, (BUFFER, 40, SEED), memory)
    run_all(CHECK_KERNEL, (BUFFER, 40, SEED, COUNTER), memory)
    assert COUNTER not in memory
    for wrong in (0, 17, 39):
        memory[BUFFER + WORD_BYTES * wrong] ^= 1 << wrong % 32
    run_all(CHECK_KERNEL, (BUFFER, 40, SEED, COUNTER), memory)
    assert memory[COUNTER] == 3


def test_words_of_another_seed_are_all_wrong() -> None:
    memory: dict[int, int] = {}
    run_all(PUT_KERNEL, (BUFFER, 40, SEED), memory)
    run_all(CHECK_KERNEL, (BUFFER, 40, SEED ^ 1, COUNTER), memory)
    assert memory[COUNTER] == 40


def test_words_beyond_sixteen_gib_have_the_value_that_the_host_expects() -> None:
    index = (1 << 32) + 5
    memory: dict[int, int] = {}
    ptx.run_thread(
        PUT_KERNEL,
        (BUFFER, index + 1, SEED),
        memory,
        block=1 << 24,
        thread=5,
        blocks=1 << 30,
        threads=256,
    )
    assert memory == {BUFFER + WORD_BYTES * index: word(index, SEED)}
    assert word(index, SEED) != word(5, SEED)


def test_registers_are_declared_in_the_number_that_is_used() -> None:
    text = PTX.decode()
    for kind, declared in (("p", 3), ("r", 9), ("rd", 7)):
        used = {int(number) for number in re.findall(rf"%{kind}(\d+)", text)}
        assert f"%{kind}<{declared}>" in text
        assert max(used) < declared
