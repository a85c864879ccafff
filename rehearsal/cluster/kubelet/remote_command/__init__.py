"""`kubectl exec` on the simulated kubelet, over WebSockets."""
