"""The loop of passes, and its metrics."""
