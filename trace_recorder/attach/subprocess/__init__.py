"""Outside: an agent that knows nothing of this package, recorded from its start to its end."""
