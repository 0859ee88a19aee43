"""Known differences between the corpus and the record, each with its reason.

Any other difference is a fault. An entry names its exchanges and columns, and must be true of all of them. An entry
that was fixed, or no longer applies to some exchanges, fails the test like a new difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.wire.corpus import Exchange


@dataclass(frozen=True, slots=True)
class Difference:
    """Columns that differ for every exchange that `applies` selects, with the reason."""

    columns: tuple[str, ...]
    applies: Callable[[Exchange], bool]
    reason: str


DIFFERENCES = (
    Difference(
        ("usage",),
        lambda exchange: exchange.host == "api.groq.com" and exchange.stream,
        "Groq puts the usage of a stream under x_groq, which we read and the openai SDK does not",
    ),
    Difference(
        ("usage",),
        lambda exchange: exchange.host == "api.together.ai",
        "Together counts cached tokens outside the details, where we read them and the openai SDK does not",
    ),
    Difference(
        ("usage",),
        lambda exchange: '"cost":0,"is_byok":true' in exchange.response_text,
        "OpenRouter states no price of its own for the user's own key, so we add what the upstream provider bills",
    ),
    Difference(
        ("usage",),
        lambda exchange: exchange.dialect == "openai-responses" and '"cache_write_tokens"' in exchange.response_text,
        "OpenAI counts written tokens in the details, where we read them and the openai SDK does not",
    ),
    Difference(
        ("usage",),
        lambda exchange: exchange.host == "api.voyageai.com",
        "Voyage states a total alone, which is the number of input tokens",
    ),
    Difference(
        ("content",),
        lambda exchange: exchange.host == "api.writer.com" and exchange.stream,
        "Writer's chunks are {value: …}, which we read and which mean nothing to the openai SDK",
    ),
    Difference(
        ("tool_calls",),
        lambda exchange: exchange.dialect == "ollama-chat" and '"tool_calls":[{"id":' in exchange.response_text,
        "today's Ollama gives its tool calls ids, which we read and the ollama SDK drops",
    ),
    Difference(
        ("content",),
        lambda exchange: 0 <= exchange.response_text.find('"text"') < exchange.response_text.find('"executableCode"'),
        "a blank line stands where executed code parts two texts, which the SDK leaves to the caller",
    ),
    Difference(
        ("error",),
        lambda exchange: exchange.status == 200 and exchange.response_text.lstrip("{ \r\n").startswith('"error"'),
        "Azure answers with status 200 and an error, which the openai SDK gives as a completion without choices",
    ),
)


def explain(exchange: Exchange, column: str) -> str | None:
    """Return the reason why a column differs for an exchange, or None if it should not."""
    for difference in DIFFERENCES:
        if column in difference.columns and difference.applies(exchange):
            return difference.reason
    return None
