"""The GPU operator, slicewright's agent and controller, and the pools."""
