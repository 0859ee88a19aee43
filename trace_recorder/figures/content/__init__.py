"""Content: the parts of messages and answers, in every dialect."""
