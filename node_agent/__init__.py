"""The node agent compares the GPUs of one machine with the desired state: a pod, or a command."""

VERSION = "0.1.0"
"""Of slicewright as a whole; here, because the agent's zipapp has no package metadata."""
