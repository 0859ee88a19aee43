"""The blocks of an answer, in order, and the rule by which all dialects join their texts.

Adjacent texts are joined without a separator, because deltas and citations cut a sentence into several texts. Texts
with a block of another kind between them are joined with a blank line. Reasoning is joined by the same rule. The order
of blocks is kept if it is not the usual one: reasoning, text, tool calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, get_args

from trace_recorder.dialects.json_access import as_dict, as_int, as_list, as_text, content_of, is_plain_text
from trace_recorder.values.messages import Block, BlockType, Payload, ToolCall

BLOCK_SEPARATOR = "\n\n"
"""The separator of two texts with a block of another kind between them."""

_USUAL_ORDER: tuple[BlockType, ...] = ("reasoning", "text", "tool_call")


def is_reference(part: Payload) -> bool:
    """Whether a part is a reference to a source inside a text, as Mistral sends it. Such a part is not a block."""
    return (as_text(as_dict(part).get("type")) or "").endswith("reference")


class _GatheredBlock(NamedTuple):
    """A block whose text may still grow by pieces. `position` is an index in the answer's `extra`, or None."""

    kind: BlockType
    pieces: list[str]
    position: int | None = None


class Blocks:
    """Collects the blocks of one answer, or of one message of a request."""

    __slots__ = ("_gathered", "_has_text")

    def __init__(self) -> None:
        self._gathered: list[_GatheredBlock] = []
        self._has_text = False

    def add_text(self, text: str | None) -> None:
        """Add a text. An empty text is not a block."""
        if text is not None:
            self._has_text = True
            if text:
                self._add("text", text)

    def add_reasoning(self, text: str | None) -> None:
        """Add reasoning, which is a block even if its text is hidden."""
        self._add("reasoning", text or "")

    def add_call(self) -> None:
        """Add a tool call."""
        self._gathered.append(_GatheredBlock("tool_call", []))

    def add_other(self, position: int | None = None) -> None:
        """Add a block that is not text, reasoning or a call.

        A list in the answer's `extra` has the block, or the item that contains the block. `position` is an index in
        that list.
        """
        self._gathered.append(_GatheredBlock("other", [], position))

    def _add(self, kind: BlockType, text: str) -> None:
        if not self._gathered or self._gathered[-1].kind != kind:
            self._gathered.append(_GatheredBlock(kind, []))
        self._gathered[-1].pieces.append(text)

    def _texts(self, kind: BlockType) -> list[str]:
        texts = ["".join(block.pieces) for block in self._gathered if block.kind == kind]
        return [*filter(None, texts)]

    def all_text(self) -> str | None:
        """Return the joined texts, or None if no text was added."""
        if not self._has_text:
            return None
        return BLOCK_SEPARATOR.join(self._texts("text"))

    def all_reasoning(self) -> str | None:
        """Return the joined reasoning, or None if no reasoning is shown."""
        return BLOCK_SEPARATOR.join(self._texts("reasoning")) or None

    def content(self, parts: list[Payload]) -> str | list[Payload] | None:
        """Return the content of a message. Plain texts that blocks of other kinds separate are joined to one text."""
        if len(self._texts("text")) > 1 and all(is_plain_text(as_dict(part)) for part in parts):
            return self.all_text()
        return content_of(parts)

    def interleaved(self, calls: Iterable[ToolCall]) -> tuple[Block, ...]:
        """If the order of the blocks is unusual, return the blocks. Each block of a tool call has the call's id.

        Otherwise return no blocks.
        """
        kinds = [block.kind for block in self._gathered]
        if "other" not in kinds:
            places = [*map(_USUAL_ORDER.index, kinds)]
            if places == sorted(places):
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
    """Read the blocks of an answer in a document.

    A block of text has only a length, because its text is part of `content` or `reasoning`. Returns no blocks if one of
    the listed blocks is malformed.
    """
    texts = {"text": content or "", "reasoning": reasoning or ""}
    read: list[Block] = []
    for block in map(as_dict, as_list(listed)):
        kind: Payload = block.get("type")
        length = as_int(block.get("characters"))
        if kind not in get_args(BlockType) or (kind in texts and length is None):
            return ()
        if kind in texts:
            read.append(Block(kind, texts[kind][:length]))
            if length:
                texts[kind] = texts[kind][length + len(BLOCK_SEPARATOR) :]
        else:
            read.append(Block(kind, call_id=as_text(block.get("call_id")), position=as_int(block.get("position"))))
    return tuple(read)
