"""Stand-ins for the device plugins of Volcano and HAMi, and for HAMi's scheduler extender.

Both plugins offer shares of whole GPUs, read from the simulated NVML. Their annotations are those
of the real plugins, so that Volcano's own scheduler reads them.
"""
