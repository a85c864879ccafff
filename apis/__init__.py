"""The contract between the programs, their documents and the clusters.

It has names, custom resources, the desired state of a node, the layout language, reason codes,
rights and admission policies. It imports the standard library only, and every other package may
import it.
"""
