"""Values that an agent records by hand, read in the common form."""

from __future__ import annotations

import pytest

from trace_recorder.dialects.manual import read_usage
from trace_recorder.values.messages import Payload, Usage


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"input_tokens": 0, "output_tokens": 0}, Usage(0, 0)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0)),
        ({"input_tokens": 0, "prompt_tokens": 7}, Usage(0, extra={"prompt_tokens": 7})),
        ({"input_tokens": None, "prompt_tokens": 7}, Usage(7)),
        ({"cache_read_input_tokens": 0, "reasoning_tokens": 0, "cost": 0}, Usage(None, None, None, 0, 0, 0)),
        ({"total_tokens": 3}, Usage(extra={"total_tokens": 3})),
    ],
)
def test_a_zero_is_a_count_and_a_missing_number_is_unknown(given: dict[str, Payload], expected: Usage) -> None:
    """A stated 0 is 0 under each of its names. A count that is not stated is None."""
    assert read_usage(given) == expected
