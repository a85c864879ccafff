"""The node agent compares the GPUs of one machine with the desired state: a pod, or a command."""

VERSION = "0.1.0"
"""Version of slicewright as a whole, defined here because the agent's zipapp has no metadata."""
