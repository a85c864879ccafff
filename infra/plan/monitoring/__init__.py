"""A fleet's monitoring is checked, and its notes say what it lacks."""
