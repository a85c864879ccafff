"""The GPU operator stand-in: NVIDIA's operator v26.7.0 for nodes with a driver of their own.

Its objects are those that the real one makes. Of its operands mig-manager, device plugin, GPU
feature discovery, config-manager and MPS control daemon are NVIDIA's own programs; the validator
and the container toolkit are stand-ins; DCGM does nothing. It also does what Node Feature Discovery
does: the labels of PCI devices and of the system, and those of NodeFeature objects.
"""
