"""Logs of Inspect AI, which `inspect view` and `read_eval_log` open."""
