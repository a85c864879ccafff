"""Simulated silicon: a `libnvidia-ml.so.1` with NVML's binary interface whose GPUs are lines in a
file.

`library/` is the C library, `models` the GPUs that it knows, `state` the file that it and the
rehearsal read and write.
"""
