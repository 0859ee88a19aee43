"""Records other processes: an agent that does not use this package, from its start to its end."""
