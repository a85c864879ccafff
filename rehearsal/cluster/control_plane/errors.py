"""The error that callers see."""


class ControlPlaneError(Exception):
    """A control plane did not start or stop: which process, why, and where its log is."""
