"""Stand-in for Pulumi's gcp provider: the same inputs, checks, replacements and outputs, over the
rehearsal's simulated GCP.
"""
