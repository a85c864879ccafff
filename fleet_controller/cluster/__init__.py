"""The reads, watches and writes of the controller."""
