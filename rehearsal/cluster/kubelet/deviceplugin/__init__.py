"""The kubelet's side of the device-plugin API, v1beta1: registration, the device lists,
allocation.
"""
