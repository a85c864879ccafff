"""Facts from the driver, read through `binding` as plain values, without judging them."""
