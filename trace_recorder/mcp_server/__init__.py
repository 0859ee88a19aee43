"""The MCP server: tools with which an agent asks about the runs of one directory (`docs/agents.md`).

`served_runs.py` finds and opens the runs, and lets nothing outside of the directory be read. `tools.py` lists the
tools; the files above it make their answers. `answers.py` bounds each answer and marks it as data. `stdio.py` speaks
the protocol, with the package `mcp`.
"""
