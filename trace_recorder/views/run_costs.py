"""The costs of whole runs, as `list` and the viewer's list show them: sums of the costs of their calls.

If a run has ended, only the members of its document that affect the price are decoded. This is much faster than reading
the run. Any other run, and a document in another form, is loaded as a whole. `cost.py` computes the cost of each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from msgspec import MsgspecError, Struct, json

from trace_recorder.dialects.manual import read_usage
from trace_recorder.guard import try_call
from trace_recorder.values.llm_interaction import InteractionSource, LLMInteraction
from trace_recorder.values.messages import LLMResponse, Payload
from trace_recorder.values.origins import ReplayedFrom
from trace_recorder.views.cost import Costs, cost_of, table
from trace_recorder.views.replayed_calls import made_calls


class RunCosts(Struct, frozen=True):
    """The cost of a run in US dollars, whether it includes an estimate, and how many calls have no price.

    `amount` and `estimated` are None if no call has a known cost.
    """

    amount: float | None = None
    estimated: bool | None = None
    calls_without_price: int = 0


class _AnswerInDocument(Struct):
    model: str | None = None
    usage: dict[str, Payload] | None = None


class _CallInDocument(Struct):
    """The members of a call in a document that affect its price. All other members are skipped."""

    timestamp: str
    provider: str | None = None
    model: str | None = None
    api: str | None = None
    response: _AnswerInDocument | None = None
    replayed_from: Payload = None

    def to_interaction(self) -> LLMInteraction:
        """Return an interaction with the members that `cost_of` needs."""
        answer = self.response or _AnswerInDocument()
        return LLMInteraction(
            interaction_id="",
            timestamp=self.timestamp,
            provider=self.provider,
            model=self.model,
            source=cast(InteractionSource, None),  # messages do not affect the price
            api=self.api,
            response=LLMResponse(model=answer.model, usage=read_usage(answer.usage or {})),
            replayed_from=ReplayedFrom.of_document(self.replayed_from),
        )


class _EndedDocument(Struct):
    status: str
    llm_interactions: list[_CallInDocument]


_DECODER = json.Decoder(_EndedDocument)


def may_have_price(status: Payload, *tokens: Payload) -> bool:
    """Whether calls of a run may have a price. A run that is still being recorded is priced after its end."""
    return any(tokens) and status != "running" and table() is not None


def run_costs_or_unknown(path: Path) -> RunCosts:
    """Return the cost of a run. If the run cannot be read, its cost is unknown."""
    return try_call(lambda: run_costs(path), lambda _: RunCosts())


def run_costs(path: Path) -> RunCosts:
    """Return the cost of a run. Raises the same errors as `load`."""
    calls = _calls_of_document(path)
    if calls is None:
        from trace_recorder.imports.loader import load  # noqa: PLC0415 - `list` of ended runs does without it

        calls = load(path).llm_interactions
    return costs_of_calls(calls)


def costs_of_calls(calls: Iterable[LLMInteraction]) -> RunCosts:
    """Return the sum of the costs of calls. Calls that were not made cost nothing."""
    costs, without_price = Costs(), 0
    for call in made_calls(calls):
        cost = cost_of(call)
        costs.add(cost)
        without_price += cost is None and call.response.usage.is_known
    if not costs.stated_calls + costs.estimated_calls:
        return RunCosts(calls_without_price=without_price)
    return RunCosts(round(costs.stated + costs.estimated, 9), costs.estimated_calls > 0, without_price)


def _calls_of_document(path: Path) -> Sequence[LLMInteraction] | None:
    """Return the calls of an ended run's document, or None for any other file."""
    if path.suffix != ".json":
        return None
    try:
        document = _DECODER.decode(path.read_bytes())
    except (OSError, MsgspecError, RecursionError):
        return None
    return None if document.status == "running" else [call.to_interaction() for call in document.llm_interactions]
