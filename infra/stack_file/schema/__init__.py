"""The schema of stack files, as pydantic models."""
