"""opencode (https://opencode.ai). `sessions.py` is the format's module. Each session of the user is a run."""
