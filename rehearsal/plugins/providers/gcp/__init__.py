"""A stand-in for Pulumi's gcp provider, over the rehearsal's simulated Google Cloud.

Inputs, checks, replacements and outputs are those of the real provider.
"""
