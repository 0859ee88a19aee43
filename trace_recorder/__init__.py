"""Records what an AI agent does."""
