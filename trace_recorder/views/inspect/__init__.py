"""Inspect AI's logs, as `inspect view` and `read_eval_log` open them."""
