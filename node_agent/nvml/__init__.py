"""What the driver says, read through `binding` and kept as plain values; nothing here judges it."""
