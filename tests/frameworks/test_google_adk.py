"""Google's Agent Development Kit: its agent on Gemini, with and without streaming."""

from __future__ import annotations

from tests.frameworks.judgement import STEPS, Runs
from tests.frameworks.page import agent, blocks, only_with, without_us

only_with("google.adk")
PAGE = blocks("Google ADK")
RUN = """
async def main():
    runner = InMemoryRunner(agent=agent, app_name="weather")
    session = await runner.session_service.create_session(app_name="weather", user_id="me")
    question = types.Content(role="user", parts=[types.Part(text="What is the weather in Tokyo?")])
    async for event in runner.run_async(user_id="me", session_id=session.id, new_message=question, run_config=CONFIG):
        if event.is_final_response() and event.content:
            print(event.content.parts[0].text)
asyncio.run(main())
"""
STREAMED = "RunConfig(streaming_mode=StreamingMode.SSE)"
IMPORTS = "from google.adk.agents.run_config import RunConfig, StreamingMode\n"


def test_the_page_s_agent_is_recorded(runs: Runs) -> None:
    """The code block of the docs page records the agent, and does not change what it does."""
    assert runs.recorded(PAGE[0]) == STEPS


def test_an_agent_is_recorded_from_outside(runs: Runs) -> None:
    """`trace-recorder run` records the unmodified agent."""
    assert runs.outside(without_us(PAGE[0])) == STEPS


def test_a_streaming_agent_is_recorded(runs: Runs) -> None:
    """The streamed calls of an agent are recorded."""
    code = IMPORTS + agent("Google ADK") + RUN.replace("CONFIG", STREAMED)

    assert runs.instrumented(code) == STEPS
