"""Have verifiers read episodes, and compare the tokens of its branches with those of our rollouts.

needs: Python >= 3.11; verifiers>=0.4
usage: PYTHONPATH=. python -m tests.readers.check_verifiers DIRECTORY

`WireEpisode` is what prime-rl reads `traces.jsonl` with. The branches that it finds must have the tokens and masks of
the rollout of the same run, and the text of each answer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from verifiers.v1 import WireEpisode

from tests.readers.contents import Contents
from tests.readers.reading import Reader, finish, rows, runs
from trace_recorder.figures.rollouts import Rollout, sampled_rollout


def check(episode: dict[str, Any], rollout: Rollout) -> None:
    """Compare the branches that verifiers finds with those of a rollout. The graph states each sampled token once."""
    [trace] = WireEpisode.model_validate(episode).traces
    found = {(*branch.token_ids,): (*branch.sampled_mask,) for branch in trace.branches}
    for branch in rollout.branches:
        assert (*branch.token_ids,) in found, "verifiers has no such branch"
        mask = found[*branch.token_ids,]
        assert all(one >= other for one, other in zip(mask, branch.mask, strict=True)), "verifiers has another mask"
    assert sum(sum(node.mask) for node in trace.nodes) == rollout.sampled_count, "verifiers trains on other tokens"


def main() -> None:
    """Read every episode."""
    rollouts = {run.trajectory_id: sampled_rollout(run) for _, run in runs()}
    reader = Reader("verifiers", "episodes", "verifiers")
    for number, row in enumerate(rows("verifiers.jsonl"), start=1):
        reader.take(f"row {number}", partial(check, row, rollouts[row["id"]]))
    contents = Contents("verifiers: contents", "verifiers", "verifiers")
    contents.hold(lambda held, _: [WireEpisode.model_validate(row).model_dump(mode="json") for row in held])
    finish(reader, contents)


main()
