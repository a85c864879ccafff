"""The node agent compares the GPUs of one machine with the desired state: a pod, or a command."""
