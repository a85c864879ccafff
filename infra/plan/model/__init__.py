"""The model holds the plan as data, without rules: all that the components create."""
