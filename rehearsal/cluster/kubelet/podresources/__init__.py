"""The kubelet's pod-resources API, v1: which container holds which device."""
