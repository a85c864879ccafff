"""What a stack file may say, as pydantic models."""
