"""Views: pure functions that convert a trajectory to the formats of other tools, or compute figures over runs.

Each format has its own file or folder. Nothing here records a run or reads a file. The pages of `docs/views/`
list what each format cannot carry.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trace_recorder.views.atif.document import to_atif, to_atif_files
    from trace_recorder.views.export_format import LeftOut, View
    from trace_recorder.views.hierarchy.document import to_hierarchy
    from trace_recorder.views.inspect.log import to_inspect
    from trace_recorder.views.invariant import to_invariant, to_invariant_dataset
    from trace_recorder.views.otlp.spans import to_otlp, to_spans
    from trace_recorder.views.pi_sessions import to_traces
    from trace_recorder.views.session_traces import to_session_traces
    from trace_recorder.views.stats import Stats
    from trace_recorder.views.toolbrain.chat_template import ChatTemplate
    from trace_recorder.views.toolbrain.parsing import ParsedCompletion, parse_code, parse_react, parse_tool_calls
    from trace_recorder.views.toolbrain.turns import ToolBrainTurn, format_turns, to_turns
    from trace_recorder.views.trae import to_trae
    from trace_recorder.views.training.openai_finetuning import to_openai_finetuning
    from trace_recorder.views.training.preferences import preference_pairs
    from trace_recorder.views.training.trl import to_trl

__all__ = [
    "ChatTemplate",
    "LeftOut",
    "ParsedCompletion",
    "Stats",
    "ToolBrainTurn",
    "View",
    "format_turns",
    "parse_code",
    "parse_react",
    "parse_tool_calls",
    "preference_pairs",
    "to_atif",
    "to_atif_files",
    "to_hierarchy",
    "to_inspect",
    "to_invariant",
    "to_invariant_dataset",
    "to_openai_finetuning",
    "to_otlp",
    "to_session_traces",
    "to_spans",
    "to_traces",
    "to_trae",
    "to_trl",
    "to_turns",
]

_MODULES = {
    "atif.document": (
        "to_atif",
        "to_atif_files",
    ),
    "hierarchy.document": ("to_hierarchy",),
    "inspect.log": ("to_inspect",),
    "invariant": (
        "to_invariant",
        "to_invariant_dataset",
    ),
    "otlp.spans": ("to_otlp", "to_spans"),
    "pi_sessions": ("to_traces",),
    "session_traces": ("to_session_traces",),
    "stats": ("Stats",),
    "toolbrain.chat_template": ("ChatTemplate",),
    "toolbrain.parsing": (
        "ParsedCompletion",
        "parse_code",
        "parse_react",
        "parse_tool_calls",
    ),
    "toolbrain.turns": (
        "ToolBrainTurn",
        "format_turns",
        "to_turns",
    ),
    "trae": ("to_trae",),
    "training.openai_finetuning": ("to_openai_finetuning",),
    "training.preferences": ("preference_pairs",),
    "training.trl": ("to_trl",),
    "export_format": (
        "LeftOut",
        "View",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a view at its first use, because few programs need every format."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"trace_recorder.views.{_MODULE_OF[name]}"), name)
