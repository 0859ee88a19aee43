"""Other processes: an agent that does not use this package, recorded from its start to its end."""
