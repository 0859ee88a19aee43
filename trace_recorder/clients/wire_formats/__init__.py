"""From the shared form of messages to each provider's request: one file a dialect, pure functions on plain dicts."""
