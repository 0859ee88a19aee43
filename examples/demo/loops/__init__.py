"""The agent's conversation through each SDK, one file each."""
