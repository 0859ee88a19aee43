"""The cost of an exporter in the agent's thread, counted in function calls: none for a call, with any endpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.exporting import function_calls
from tests.exporters.sink import sink


@pytest.mark.parametrize("status", [200, 429, None])
def test_a_call_with_an_exporter_calls_no_more_functions(tmp_path: Path, status: int | None) -> None:
    """The median over calls equals that without an exporter, within the differences that the document thread causes."""
    with sink() as server:
        server.status = status or 200
        url = server.url if status else "http://127.0.0.1:9"
        with_exporter = function_calls(tmp_path / "with.json", 30, f"{url}/v1/traces")
        without = function_calls(tmp_path / "without.json", 30, None)

        assert abs(with_exporter - without) <= 0.02 * without
        assert without > 100
