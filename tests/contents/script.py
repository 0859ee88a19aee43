"""Scripts of conversations between a provider and an agent, independent of any dialect.

`wire.py` writes them in the dialects, `shown.py` reads what exports show, and `comparing.py` compares both. The module
needs only the standard library, so that it runs where third-party readers do.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BYTES = PIXEL + bytes(range(240, 256)) * 3
"""An image whose base64 has `+` and `/`, for which the URL alphabet has `-` and `_`."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token counts of an answer: the prompt, the output, cached parts of the prompt, and thinking."""

    prompt: int
    output: int
    cached: int = 0
    thought: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A text of the user, possibly with an image."""

    text: str
    image: bytes | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A tool result. Results answer the calls of the answer before them, in order."""

    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The model's answer (thinking, text and tool calls), or the failure of the call."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thought: str = ""
    tokens: Tokens = Tokens(10, 5)
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """The new messages of a request, and its answer."""

    new: tuple[Asked | Result, ...]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Talk:
    """The conversation of one agent."""

    system: str
    rounds: tuple[Round, ...]
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """Conversations. The first round of the first conversation comes before all other conversations."""

    name: str
    talks: tuple[Talk, ...]

    def order(self) -> Iterator[tuple[Talk, int]]:
        """Yield the rounds of all conversations in the order of time."""
        main, *others = self.talks
        yield main, 0
        for talk in others:
            yield from ((talk, number) for number in range(len(talk.rounds)))
        yield from ((main, number) for number in range(1, len(main.rounds)))


SYSTEM = "You answer in one sentence."
ULM, ROME, BONN = (Call("weather", {"city": city, "days": 1}) for city in ("Ulm", "Rome", 'Bönn "am" Rhein'))
TOOLS = Script(
    "tools",
    (
        Talk(
            SYSTEM,
            (
                Round(
                    (Asked("Is it warmer in Ulm or in Rome?"),),
                    Answer("I look.", (ULM, ROME), tokens=Tokens(50, 9, 20)),
                ),
                Round(
                    (Result("7 °C"), Result("Error: no such city")), Answer("Ulm has 7 °C.", tokens=Tokens(90, 8, 50))
                ),
                Round((Asked("And in Bonn?\n\nBe quick."),), Answer("", (BONN,), tokens=Tokens(110, 7, 90))),
                Round((Result("9"),), Answer("9 °C.", tokens=Tokens(130, 3))),
            ),
        ),
    ),
)
THINKING = Script(
    "thinking",
    (
        Talk(
            SYSTEM,
            (
                Round(
                    (Asked("Where is it hot?"),),
                    Answer("I ask.", (ROME,), thought="Rome, I think.", tokens=Tokens(30, 20, thought=12)),
                ),
                Round((Result("31"),), Answer("Rome.", thought="31 is hot.", tokens=Tokens(60, 9, thought=4))),
            ),
        ),
    ),
)
IMAGE = Script(
    "image",
    (
        Talk(
            SYSTEM,
            (
                Round((Asked("What is this?", BYTES),), Answer("A pixel.", tokens=Tokens(300, 4))),
                Round((Asked("Its colour?"),), Answer("Red.", tokens=Tokens(320, 2))),
            ),
        ),
    ),
)
FAILURE = Script(
    "failure",
    (
        Talk(
            SYSTEM,
            (
                Round((Asked("Count to three."),), Answer("One.", tokens=Tokens(12, 2))),
                Round((Asked("Go on."),), Answer(fails=True)),
                Round((Asked("Please."),), Answer("Two, three.", tokens=Tokens(20, 4))),
            ),
        ),
    ),
)
RESEARCH = Call("research", {"topic": "Ulm"})
SEARCH = Call("search", {"q": "Ulm"})
SUB_AGENTS = Script(
    "sub_agents",
    (
        Talk(
            "You plan.",
            (
                Round((Asked("Plan a trip to Ulm."),), Answer("First I research.", (RESEARCH,), tokens=Tokens(20, 6))),
                Round((Result("It has a minster."),), Answer("See the minster.", tokens=Tokens(40, 5))),
            ),
            agent="planner",
        ),
        Talk(
            "You research.",
            (
                Round((Asked("Research Ulm."),), Answer("", (SEARCH,), tokens=Tokens(15, 4))),
                Round((Result("a minster"),), Answer("It has a minster.", tokens=Tokens(25, 6))),
            ),
            agent="researcher",
        ),
    ),
)
SCRIPTS = {one.name: one for one in (TOOLS, THINKING, IMAGE, FAILURE, SUB_AGENTS)}
