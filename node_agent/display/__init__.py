"""Text and tables for a terminal."""
