"""opencode (https://opencode.ai): `sessions.py` is the format's module, each session of the user is a run."""
