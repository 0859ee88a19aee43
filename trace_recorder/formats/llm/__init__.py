"""Logs of simonw/llm (https://llm.datasette.io). `logs.py` is the format's module. Each conversation is a run."""
