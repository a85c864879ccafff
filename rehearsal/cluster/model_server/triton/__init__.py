"""NVIDIA's own tritonserver in a pod of a rehearsal, with models that take simulated time on the
device that its container was given.
"""
