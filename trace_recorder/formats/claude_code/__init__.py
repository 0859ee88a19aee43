"""Claude Code's sessions: session files, with the files of sub-agents, and the lines that the SDK writes to a pipe.

A session is a file of lines, `<session>.jsonl`. `user` and `assistant` lines have a message of the Anthropic dialect.
All other lines are events. `lines.py` reads the different forms of these lines, and `requests.py` the exact requests.
`threads.py` finds the agent and the branch that each line belongs to. `session.py` makes calls and results.
"""
