"""A stand-in for Pulumi's aws provider, over the rehearsal's simulated AWS.

Inputs, checks, replacements and outputs are those of the real provider.
"""
