"""The agents."""

from trae_agent.agent.agent import Agent
from trae_agent.agent.base_agent import BaseAgent
from trae_agent.agent.trae_agent import TraeAgent

__all__ = ["Agent", "BaseAgent", "TraeAgent"]
