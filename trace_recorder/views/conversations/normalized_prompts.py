"""The normalized messages of whole prompts. Prompts with a common beginning share what was made of it.

A prompt that repeats an earlier one, which most do, is normalized from the end of that one on. So work grows with what
is new in each prompt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from trace_recorder.values.messages import Message
from trace_recorder.values.shared_sequence import ImmutableSequence, SharedSequence
from trace_recorder.views.conversations.normalized_messages import (
    EMPTY_PREFIX,
    MessageNormalizer,
    NormalizedMessage,
    prefix_digests,
)

MAX_PROMPTS = 8
"""With how many earlier prompts a prompt is compared."""


@dataclass(frozen=True, slots=True)
class NormalizedPrompt:
    """The normalized `messages` of a prompt. `own` is how many of them are instructions for it alone.

    `digests` are the digests after each of the others.
    """

    source: ImmutableSequence[Message]
    messages: SharedSequence[NormalizedMessage]
    own: int
    digests: SharedSequence[bytes]
    has_instructions: bool


class PromptNormalizer:
    """Normalizes the prompts of a run, one after another."""

    def __init__(self, normalizer: MessageNormalizer) -> None:
        self._normalizer = normalizer
        self._earlier: deque[NormalizedPrompt] = deque(maxlen=MAX_PROMPTS)

    def normalize(self, messages: Sequence[Message], instructions: int) -> NormalizedPrompt:
        """Normalize a prompt. The first `instructions` messages are instructions for it alone."""
        source = SharedSequence.of(messages)
        before, kept = self._beginning(source)
        kept, count = _repeated(before, source, kept)
        found = before.messages[:count] if before else SharedSequence[NormalizedMessage]([])
        new = self._normalizer.normalize_more(source, kept, found)
        found = found.extended(new)
        own = next((at for at, one in enumerate(found) if one.begin >= instructions), len(found))
        if before is not None and before.own == own <= count:
            digests = before.digests[: count - own]
            digests = digests.extended(prefix_digests(new, digests[-1] if digests else EMPTY_PREFIX))
        else:
            digests = SharedSequence([*prefix_digests(found[own:], EMPTY_PREFIX)])
        said = any(map(_is_instruction, source[kept:])) or (before.has_instructions if before and kept else False)
        prompt = NormalizedPrompt(source, found, own, digests, said)
        self._earlier.append(prompt)
        return prompt

    def _beginning(self, source: ImmutableSequence[Message]) -> tuple[NormalizedPrompt | None, int]:
        """Return the earlier prompt with which a prompt has the longest beginning in common, and its length.

        One that is repeated as a whole is forgotten: the prompt replaces it.
        """
        best: tuple[NormalizedPrompt | None, int] = None, 0
        for one in reversed(self._earlier):
            length = source.shared_length(one.source)
            if length > best[1]:
                best = one, length
            if length == len(one.source) and length:
                self._earlier.remove(one)
                return one, length
        return best


def _repeated(before: NormalizedPrompt | None, source: ImmutableSequence[Message], kept: int) -> tuple[int, int]:
    """Return how many messages of a prompt are normalized already, and in how many of an earlier one's.

    Messages of an assistant at the end of them are normalized together with those that follow.
    """
    if before is None:
        return 0, 0
    count = len(before.messages)
    while kept and kept < len(source) and source[kept].role == source[kept - 1].role == "assistant":
        kept -= 1
    while count and before.messages[count - 1].end > kept:
        count -= 1
    return kept, count


def _is_instruction(message: Message) -> bool:
    return message.role in {"system", "developer"}
