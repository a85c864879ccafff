"""Xids: NVIDIA driver errors, read from the kernel log."""
