"""The costs of runs in files, which lists of runs show.

If a run has ended, only the members of its document that affect the price are decoded. Decoding these members is much
faster than loading the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from msgspec import MsgspecError, Struct, json

from trace_recorder.figures.cost import RunCosts, costs_of_calls
from trace_recorder.guard import try_call
from trace_recorder.storage.local_copies import local_copy
from trace_recorder.values.llm_interaction import InteractionSource, LLMInteraction
from trace_recorder.values.messages import Choice, LLMResponse, Payload, Usage, without_none
from trace_recorder.values.origins import ReplayedFrom


class _ItemInDocument(Struct):
    type: str = ""
    action: Payload = None


class _ExtraInDocument(Struct, rename={"of_bedrock": "serviceTier", "grounding": "groundingMetadata"}):
    service_tier: Payload = None
    of_bedrock: Payload = None
    grounding: Payload = None
    output: list[_ItemInDocument] | None = None
    duration: Payload = None

    def to_members(self) -> dict[str, Payload]:
        return {
            **without_none(serviceTier=self.of_bedrock, groundingMetadata=self.grounding),
            **without_none(service_tier=self.service_tier, duration=self.duration),
            "output": [{"type": item.type, "action": item.action} for item in self.output or ()],
        }


class _ChoiceInDocument(Struct):
    extra: _ExtraInDocument | None = None


class _AnswerInDocument(Struct):
    model: str | None = None
    usage: dict[str, Payload] | None = None
    extra: _ExtraInDocument | None = None
    choices: list[_ChoiceInDocument] | None = None

    def to_response(self, read_usage: Callable[[dict[str, Payload]], Usage]) -> LLMResponse:
        extras = [choice.extra for choice in self.choices or ()]
        return LLMResponse(
            model=self.model,
            usage=read_usage(self.usage or {}),
            extra=self.extra.to_members() if self.extra else {},
            choices=tuple(Choice(0, extra=extra.to_members()) for extra in extras if extra),
        )


class _CallInDocument(Struct):
    """A call in a document, with only the members that affect its price. All other members are skipped."""

    timestamp: str
    provider: str | None = None
    model: str | None = None
    api: str | None = None
    response: _AnswerInDocument | None = None
    replayed_from: Payload = None

    def to_interaction(self, read_usage: Callable[[dict[str, Payload]], Usage]) -> LLMInteraction:
        """Return an interaction with the members that `cost_of` needs."""
        return LLMInteraction(
            interaction_id="",
            timestamp=self.timestamp,
            provider=self.provider,
            model=self.model,
            source=cast(InteractionSource, None),  # messages do not affect the price
            api=self.api,
            response=(self.response or _AnswerInDocument()).to_response(read_usage),
            replayed_from=ReplayedFrom.of_document(self.replayed_from),
        )


class _EndedDocument(Struct):
    status: str
    llm_interactions: list[_CallInDocument]


_DECODER = json.Decoder(_EndedDocument)


def run_costs_or_unknown(path: Path) -> RunCosts:
    """Return the cost of a run, or an unknown cost if the run cannot be read."""
    return try_call(lambda: run_costs(path), lambda _: RunCosts())


def run_costs(path: Path) -> RunCosts:
    """Return the cost of a run. Raises the same errors as `load`."""
    calls = _calls_of_document(path)
    if calls is None:
        from trace_recorder.formats.any_file import load_only  # noqa: PLC0415 - not needed for runs that have ended

        calls = load_only(path).llm_interactions
    return costs_of_calls(calls)


def _calls_of_document(path: Path) -> Sequence[LLMInteraction] | None:
    """Return the calls of an ended run's document, or None for any other file."""
    if path.suffix != ".json":
        return None
    try:
        with local_copy(path, "document") as local:
            document = _DECODER.decode(local.read_bytes())
    except (OSError, MsgspecError, RecursionError):
        return None
    if document.status == "running":
        return None
    from trace_recorder.dialects.manual import read_usage  # noqa: PLC0415 - it imports all dialects

    return [call.to_interaction(read_usage) for call in document.llm_interactions]
