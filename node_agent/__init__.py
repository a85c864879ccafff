"""The silicon's own word: compares the GPUs of one node with what its pool wants, and reports. A
pod per node, or a command.
"""

VERSION = "0.1.0"
"""Of slicewright as a whole. Here, because the agent travels without a package's metadata."""
