"""Recording: one run while it is recorded: where its facts are written, and where in its loop an agent is."""
