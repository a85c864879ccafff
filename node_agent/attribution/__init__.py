"""Which container holds which device, from the kubelet's pod-resources API. A program beside the
agent.
"""
