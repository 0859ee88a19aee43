"""Lists and objects that attributes have as dotted names: `llm.input_messages.0.message.role`."""

from __future__ import annotations

from trace_recorder.imports.foreign.run import Members
from trace_recorder.imports.foreign.spans.span import Span
from trace_recorder.storage.redaction.text_masking import default_redactor
from trace_recorder.values.messages import Payload

_MAX_NAMES = 24
"""How deep a dotted name goes; the rest of a longer one is one name."""


def take_nested(span: Span, prefix: str) -> Payload:
    """Return the attributes whose names begin with a prefix and a dot, as one value; {} if there are none.

    An object all of whose members are numbered is a list, in the order of the numbers. A name is masked before it is
    split, because the parts of a secret with a dot in it do not look like a secret.
    """
    tree: Members = {}
    for name, value in span.attributes.items():
        if name.startswith(prefix + "."):
            span.read.add(name)
            _put(tree, default_redactor(name[len(prefix) + 1 :]).split(".", _MAX_NAMES), value)
    return _with_lists(tree)


def _put(tree: Members, path: list[str], value: Payload) -> None:
    for step in path[:-1]:
        inner = tree.get(step)
        if not isinstance(inner, _Branch):
            inner = tree[step] = _Branch()
        tree = inner
    if not isinstance(tree.get(path[-1]), _Branch):
        tree[path[-1]] = value


class _Branch(Members):
    """An object that dotted names make, as opposed to one that is an attribute's value."""


def _with_lists(tree: Members) -> Payload:
    found = {name: _with_lists(value) if isinstance(value, _Branch) else value for name, value in tree.items()}
    if not found or not all(name.isascii() and name.isdigit() and len(name) < 10 for name in found):
        return found
    return [found[name] for name in sorted(found, key=int)]
