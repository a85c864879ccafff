"""The admission policies that limit agent and controller beyond their roles."""
