"""Simulated GPUs: a `libnvidia-ml.so.1` with NVML's ABI that answers from a state file.

`library/` is the C library, `models` the GPU models that it knows, `state` the file that it and the
rehearsal read and write. `cuda_library/` is a `libcuda.so.1` over the same file.
"""
