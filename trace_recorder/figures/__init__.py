"""What people and formats ask of a run: costs, statistics, conversations, comparison, rewards, contents of messages."""
