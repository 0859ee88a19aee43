"""From the shared form to each provider's request: one file a wire dialect, pure, on plain dicts, without any SDK."""
