"""Stand-ins for Pulumi's gcp, aws and kubernetes provider plugins; they do not import each
other.
"""
