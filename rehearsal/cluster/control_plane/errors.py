"""What can go wrong with a control plane, for people."""


class ControlPlaneError(Exception):
    """A control plane did not start, or cannot exist as asked; the message says which part, why,
    and where its log is.
    """
