"""Stand-in for Pulumi's aws provider: the same inputs, checks, replacements and outputs, over the
rehearsal's simulated AWS.
"""
