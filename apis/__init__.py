"""The contract: what crosses between the programs, their documents and the clusters.

Names, custom resources, the desired state of a node, the layout language, reason codes, rights and
admission policies. It imports the standard library only, and every other package may import it.
"""
