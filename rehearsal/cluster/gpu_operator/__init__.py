"""The GPU operator stand-in: NVIDIA's operator v26.7.0 for nodes with driver and toolkit installed.

Its operands mig-manager, device plugin and GPU feature discovery are NVIDIA's own programs; DCGM
and the validator are not run. It also does what Node Feature Discovery does: the PCI label, and the
labels of NodeFeature objects.
"""
