"""Examples of the clients: one agent for all providers."""
