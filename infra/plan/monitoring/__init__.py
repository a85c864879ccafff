"""A fleet's monitoring is checked, and notes name the parts that it lacks."""
