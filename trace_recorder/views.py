"""The views: functions that convert a `Trajectory` to the formats of other tools, under the names that users import.

Nothing here records a run or reads a file. Each view is in the folder of its format.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trace_recorder.figures.rollouts import Rollout, RolloutCall, TokenBranch, to_rollouts
    from trace_recorder.figures.stats import Stats
    from trace_recorder.formats.atif.writing import to_atif, to_atif_files
    from trace_recorder.formats.format_writer import LeftOut, View
    from trace_recorder.formats.hierarchy.writing import to_hierarchy
    from trace_recorder.formats.inspect_ai.writing import to_inspect
    from trace_recorder.formats.invariant.writing import to_invariant, to_invariant_dataset
    from trace_recorder.formats.pi.session_traces import to_session_traces
    from trace_recorder.formats.pi.writing import to_traces
    from trace_recorder.formats.spans.writing.spans import to_otlp, to_spans
    from trace_recorder.formats.toolbrain.chat_template import ChatTemplate
    from trace_recorder.formats.toolbrain.parsing import ParsedCompletion, parse_code, parse_react, parse_tool_calls
    from trace_recorder.formats.toolbrain.turns import ToolBrainTurn, format_turns, to_turns
    from trace_recorder.formats.trae import to_trae
    from trace_recorder.formats.training.openai_finetuning import to_openai_finetuning
    from trace_recorder.formats.training.preferences import preference_pairs
    from trace_recorder.formats.training.trl import to_trl
    from trace_recorder.formats.verifiers.writing import to_verifiers

__all__ = [
    "ChatTemplate",
    "LeftOut",
    "ParsedCompletion",
    "Rollout",
    "RolloutCall",
    "Stats",
    "TokenBranch",
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
    "to_rollouts",
    "to_session_traces",
    "to_spans",
    "to_traces",
    "to_trae",
    "to_trl",
    "to_turns",
    "to_verifiers",
]

_MODULES = {
    "formats.atif.writing": (
        "to_atif",
        "to_atif_files",
    ),
    "formats.hierarchy.writing": ("to_hierarchy",),
    "formats.inspect_ai.writing": ("to_inspect",),
    "formats.invariant.writing": (
        "to_invariant",
        "to_invariant_dataset",
    ),
    "formats.spans.writing.spans": ("to_otlp", "to_spans"),
    "formats.pi.writing": ("to_traces",),
    "formats.pi.session_traces": ("to_session_traces",),
    "figures.rollouts": ("Rollout", "RolloutCall", "TokenBranch", "to_rollouts"),
    "figures.stats": ("Stats",),
    "formats.toolbrain.chat_template": ("ChatTemplate",),
    "formats.toolbrain.parsing": (
        "ParsedCompletion",
        "parse_code",
        "parse_react",
        "parse_tool_calls",
    ),
    "formats.toolbrain.turns": (
        "ToolBrainTurn",
        "format_turns",
        "to_turns",
    ),
    "formats.trae": ("to_trae",),
    "formats.training.openai_finetuning": ("to_openai_finetuning",),
    "formats.training.preferences": ("preference_pairs",),
    "formats.training.trl": ("to_trl",),
    "formats.verifiers.writing": ("to_verifiers",),
    "formats.format_writer": (
        "LeftOut",
        "View",
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a view at its first use, because few programs need every format."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"trace_recorder.{_MODULE_OF[name]}"), name)
