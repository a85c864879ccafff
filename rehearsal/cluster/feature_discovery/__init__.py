"""Node Feature Discovery's worker, master, garbage collector and clean-up job, as programs of
pods.

NVIDIA's chart brings it, and the GPU operator takes a node for one with GPUs by its labels only.
The worker runs on every node whose taints it tolerates, and writes a NodeFeature object; the master
makes labels of all NodeFeature objects of a node, those of GPU feature discovery too. Left out:
NodeFeatureRules, taints, and labels that the GPU operator does not read.

Where an environment was made with the group of tools `feature-discovery`, the pods have NFD's own
programs instead (kubelet/containers/images.py).
"""
