"""One simulated node: its file system (`root`), and starting programs on it (`launcher`)."""
