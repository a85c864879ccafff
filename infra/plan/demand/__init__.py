"""The planner's input from a stack file: demand classes, and the node types that may serve them."""
