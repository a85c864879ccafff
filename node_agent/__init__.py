"""The silicon's own word: compares the GPUs of one node with what its pool wants, and reports. A pod per node, or a command."""
