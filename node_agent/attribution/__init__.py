"""The containers that use each device, from the kubelet's pod-resources API. It is a program
separate from the agent.
"""
