"""A pool's GPUs are partitioned and shared by the rules of the tool that does it."""
