"""Other people's programs: how they are started, limited, stopped, and how their output is read."""
