"""Replay: a run's LLM calls and tools answered from its journal, so that an agent runs again without them."""
