"""The blocks of an answer, in their order, and the one rule by which their texts become one, for all dialects.

Texts that follow each other are one text: they are joined by nothing, as deltas are, and as a sentence whose citations
cut it in several is. Where a block of another kind stood between two texts, a blank line does. Thinking is joined by
the same rule. The order is kept where it says more than that an answer thought, spoke, and then called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import get_args

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text, content_of, is_plain_text
from trace_recorder.values.messages import Block, BlockType, Payload, ToolCall

BLOCK_SEPARATOR = "\n\n"
"""What stands between two texts that another block parted."""

_USUAL: tuple[BlockType, ...] = ("reasoning", "text", "tool_call")


def is_reference(part: Payload) -> bool:
    """Whether a part is no block but a mark in a text, as Mistral has what a sentence refers to."""
    return (as_text(as_dict(part).get("type")) or "").endswith("reference")


class Blocks:
    """Gathers the blocks of one answer, or of one message that is sent back."""

    __slots__ = ("_gathered", "_has_text")

    def __init__(self) -> None:
        self._gathered: list[tuple[BlockType, list[str], int | None]] = []
        self._has_text = False

    def add_text(self, text: str | None) -> None:
        """Add a text; an empty one is no block."""
        self._has_text = self._has_text or text is not None
        if text:
            self._add("text", text)

    def add_reasoning(self, text: str | None) -> None:
        """Add thinking; it is a block also where it is not shown."""
        self._add("reasoning", text or "")

    def add_call(self) -> None:
        """Add a tool call."""
        self._gathered.append(("tool_call", [], None))

    def add_other(self, position: int | None = None) -> None:
        """Add another block, which stands at this position in what `extra` keeps of the answer."""
        self._gathered.append(("other", [], position))

    def _add(self, kind: BlockType, text: str) -> None:
        if not self._gathered or self._gathered[-1][0] != kind:
            self._gathered.append((kind, [], None))
        self._gathered[-1][1].append(text)

    def _texts(self, kind: BlockType) -> list[str]:
        return [text for one, pieces, _ in self._gathered if one == kind and (text := "".join(pieces))]

    def all_text(self) -> str | None:
        """Give the texts as one; None where there is none."""
        return BLOCK_SEPARATOR.join(self._texts("text")) if self._has_text else None

    def all_reasoning(self) -> str | None:
        """Give the thinking as one text; None where none is shown."""
        return BLOCK_SEPARATOR.join(self._texts("reasoning")) or None

    def content(self, parts: list[Payload]) -> str | list[Payload] | None:
        """Give the content of a message that has these parts: one text, where blocks that went elsewhere part it."""
        if len(self._texts("text")) > 1 and all(is_plain_text(as_dict(part)) for part in parts):
            return self.all_text()
        return content_of(parts)

    def interleaved(self, calls: Iterable[ToolCall]) -> tuple[Block, ...]:
        """Give the blocks, the calls among them with their ids, where their order is not the usual one."""
        kinds = [kind for kind, _, _ in self._gathered]
        if "other" not in kinds and all(_USUAL.index(one) <= _USUAL.index(other) for one, other in pairwise(kinds)):
            return ()
        return tuple(self._blocks(iter(calls)))

    def _blocks(self, calls: Iterator[ToolCall]) -> Iterator[Block]:
        for kind, pieces, position in self._gathered:
            if kind == "tool_call":
                yield Block(kind, call_id=next(calls).call_id)
            elif kind == "other":
                yield Block(kind, position=position)
            else:
                yield Block(kind, "".join(pieces))


def read_blocks(listed: Payload, content: str | None, reasoning: str | None) -> tuple[Block, ...]:
    """Read a document's blocks, whose texts stand in the content and the reasoning; of another form they are none."""
    said = {"text": content or "", "reasoning": reasoning or ""}
    read: list[Block] = []
    for one in map(as_dict, as_list(listed)):
        kind: Payload = one.get("type")
        length = as_int(one.get("characters"))
        if kind not in get_args(BlockType) or (kind in said and length is None):
            return ()
        if kind in said:
            read.append(Block(kind, said[kind][:length]))
            said[kind] = said[kind][length + len(BLOCK_SEPARATOR) :] if length else said[kind]
        else:
            read.append(Block(kind, call_id=as_text(one.get("call_id")), position=as_int(one.get("position"))))
    return tuple(read)
