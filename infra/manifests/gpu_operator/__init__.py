"""The GPU operator's Helm values, and the config files of its parts."""
