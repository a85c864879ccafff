"""The fleet controller: turns node reports into node conditions, startup taints and pool status."""
