"""Stand-ins for Pulumi's gcp, aws and kubernetes providers; none imports another."""
