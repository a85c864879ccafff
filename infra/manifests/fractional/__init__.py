"""The charts of engines for fractions of GPUs, with their values."""
