"""The simulated clouds: one long-lived process per rehearsal, with its state on disk.

Requests are validated against the clouds' published API models, and clusters run real API servers;
machines, networks, accounts and the time they take are simulated. `aws` and `gcp` share `core` and
meet only in `service`.
"""
