"""One run while it is recorded: its records, its current step and agent, and its tools."""
