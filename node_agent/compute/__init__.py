"""Proves that partitions compute, with CUDA in child processes.

`children` starts a child per GPU (`child`), which proves one device after another (`device_proof`)
through the driver API (`driver_api`). `judgement` compares the results with the devices that should
be there, by UUID.
"""
