"""Replay: the LLM calls and tools of an agent are answered from the journal of an earlier run."""
