"""The proof of one device: a pattern through nearly all of its free memory, checked on the GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from ctypes import c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Final

from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.driver_api import Cuda, CudaError
from slicewright.node_agent.compute.kernels import CHECK, PTX, PUT, WORD_BYTES, word
from slicewright.node_agent.compute.results import DeviceResult, Failure, Measurement

_SHARES: Final = (0.9, 0.8, 0.7, 0.6, 0.5)
"""Shares of the free memory, tried in turn while the driver has not enough in one piece."""
_BLOCKS_PER_MULTIPROCESSOR: Final = 8
_THREADS: Final = 256
_SAMPLE_WORDS: Final = 16
"""Words that are also compared on the host, at each of both ends and in the middle."""
_MIB: Final = 1 << 20


def prove(cuda: Cuda, device: int, uuid: str, seed: int) -> DeviceResult:
    """Computes on a device. A failed call is part of the result.

    After an error of a kernel the process is of no more use to CUDA: see `spoils_process`.
    """
    try:
        measurement, differing_sample = _compute(cuda, device, seed)
    except CudaError as e:
        return DeviceResult(uuid=uuid, failure=Failure(step=e.call, code=e.code, name=e.name))
    if measurement.wrong_words or differing_sample:
        failure = Failure(
            step="check",
            name=signs.WRONG_WORDS,
            detail=f"{measurement.wrong_words} of {measurement.tested_mib * _MIB // WORD_BYTES} "
            f"words, and {differing_sample} of those that the host compared",
        )
        return DeviceResult(uuid=uuid, measurement=measurement, failure=failure)
    return DeviceResult(uuid=uuid, measurement=measurement)


def spoils_process(result: DeviceResult) -> bool:
    """True if the result may be an error that CUDA repeats at every later call of the process."""
    return result.failure is not None and result.failure.code is not None


@dataclass(frozen=True, kw_only=True)
class _Buffer:
    address: int
    words: int
    counter: int
    """Address of the word that counts the wrong ones."""


def _compute(cuda: Cuda, device: int, seed: int) -> tuple[Measurement, int]:
    """Returns the measurement, and the number of differing words in the host's sample."""
    cuda.enter_context(device)
    free, total = cuda.memory()
    buffer = _allocate(cuda, free)
    began = time.monotonic()
    module = cuda.load_module(PTX)
    compile_ms = (time.monotonic() - began) * 1000
    multiprocessors = cuda.multiprocessors(device)
    put_ms, check_ms = _run_kernels(cuda, module, buffer, seed, multiprocessors)
    size = buffer.words * WORD_BYTES
    measurement = Measurement(
        name=cuda.name(device),
        multiprocessors=multiprocessors,
        memory_mib=total // _MIB,
        occupied_mib=(total - free) // _MIB,
        tested_mib=size // _MIB,
        compile_ms=round(compile_ms, 1),
        write_gb_s=_rate_gb_s(size, put_ms),
        read_gb_s=_rate_gb_s(size, check_ms),
        wrong_words=cuda.read_words(buffer.counter, 1)[0],
    )
    differing = _differing_sample(cuda, buffer, seed)
    cuda.unload_module(module)
    cuda.free(buffer.address)
    cuda.free(buffer.counter)
    cuda.leave_context(device)
    return measurement, differing


def _run_kernels(
    cuda: Cuda, module: c_void_p, buffer: _Buffer, seed: int, multiprocessors: int
) -> tuple[float, float]:
    """Writes and checks the buffer. Returns the time of each in milliseconds."""
    blocks = multiprocessors * _BLOCKS_PER_MULTIPROCESSOR
    arguments = (c_uint64(buffer.address), c_uint64(buffer.words), c_uint(seed))
    cuda.fill(buffer.counter, 0, 1)
    begin = cuda.record_event()
    cuda.launch(cuda.function(module, PUT), blocks, _THREADS, *arguments)
    written = cuda.record_event()
    cuda.launch(
        cuda.function(module, CHECK), blocks, _THREADS, *arguments, c_uint64(buffer.counter)
    )
    checked = cuda.record_event()
    cuda.synchronize()
    times = cuda.elapsed_ms(begin, written), cuda.elapsed_ms(written, checked)
    for event in (begin, written, checked):
        cuda.destroy_event(event)
    return times


def _allocate(cuda: Cuda, free: int) -> _Buffer:
    counter = cuda.allocate(WORD_BYTES)
    for share in _SHARES:
        size = int(free * share) // _MIB * _MIB
        try:
            address = cuda.allocate(size)
        except CudaError as e:
            if e.code != signs.OUT_OF_MEMORY or share == _SHARES[-1]:
                raise
            continue
        return _Buffer(address=address, words=size // WORD_BYTES, counter=counter)
    raise AssertionError("the last share returns or raises")


def _differing_sample(cuda: Cuda, buffer: _Buffer, seed: int) -> int:
    return sum(
        actual != word(first + i, seed)
        for first in _sample_starts(buffer.words)
        for i, actual in enumerate(
            cuda.read_words(buffer.address + first * WORD_BYTES, _SAMPLE_WORDS)
        )
    )


def _sample_starts(words: int) -> Iterator[int]:
    yield from (0, words // 2, words - _SAMPLE_WORDS)


def _rate_gb_s(size: int, elapsed_ms: float) -> float:
    return round(size / elapsed_ms / 1e6, 1) if elapsed_ms > 0 else 0.0
