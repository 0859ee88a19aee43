"""Replaces trae-agent 0.1: its modules, how they import each other, and who hands a recorder to whom.

Importing any of them runs this, and so all of them, as there. What an agent does and records is in `tests/trae.py`.
"""

from trae_agent.agent.base_agent import BaseAgent
from trae_agent.agent.trae_agent import TraeAgent

__all__ = ["BaseAgent", "TraeAgent"]
