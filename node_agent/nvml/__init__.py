"""What the driver says, read through `pynvml` and kept as plain values; nothing here judges it."""
