"""Views: a trajectory in the forms that other tools read, one file a format; pure functions of it."""

from trace_recorder.views.chat_template import ChatTemplate
from trace_recorder.views.hierarchy import to_hierarchy
from trace_recorder.views.invariant import dataset_lines, push, to_invariant
from trace_recorder.views.parsing import ParsedCompletion, parse_code, parse_react, parse_tool_calls
from trace_recorder.views.toolbrain import Turn, debug_lines, to_turns

__all__ = [
    "ChatTemplate",
    "ParsedCompletion",
    "Turn",
    "dataset_lines",
    "debug_lines",
    "parse_code",
    "parse_react",
    "parse_tool_calls",
    "push",
    "to_hierarchy",
    "to_invariant",
    "to_turns",
]
