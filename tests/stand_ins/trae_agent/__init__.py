"""A stand-in for trae-agent 0.1: its modules, their imports, and the passing on of a recorder.

Importing any of the modules runs this file, which imports all of them, as in the original. The acts and records of an
agent are in `tests/trae.py`.
"""

from trae_agent.agent.base_agent import BaseAgent
from trae_agent.agent.trae_agent import TraeAgent

__all__ = ["BaseAgent", "TraeAgent"]
