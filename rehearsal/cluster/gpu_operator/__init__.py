"""The GPU operator stand-in: what NVIDIA's operator v26.7.0 does for nodes whose image brings
driver and toolkit.

Its operands mig-manager, device plugin and GPU feature discovery are NVIDIA's own programs; DCGM
and the validator are not run. Node Feature Discovery's part (the PCI label, and copying NodeFeature
objects to nodes) is done here too.
"""
