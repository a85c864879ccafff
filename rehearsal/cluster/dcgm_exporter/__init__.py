"""The stand-in for NVIDIA's DCGM exporter: how busy the simulated GPUs are, for Prometheus."""
