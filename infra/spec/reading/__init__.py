"""From the text of a stack file to a fleet, or to every problem in it."""
