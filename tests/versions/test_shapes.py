"""Each shape of client of the installed versions: recorded once, unchanged for its user, and restored."""

from __future__ import annotations

from pathlib import Path

from tests.provider import serving
from tests.versions.every_shape import SHAPES, asked, each_of, said
from tests.versions.shapes import Shape, inside, of_the_sdks
from trace_recorder import TrajectoryRecorder, load, unwrap

pytestmark = of_the_sdks
OF_EACH_CLIENT = {(shape.make, shape.asynchronous): name for name, shape in reversed(SHAPES.items())}


@each_of(SHAPES)
def test_a_call_is_the_same_as_without_wrapping_and_is_recorded_once(tmp_path: Path, shape: Shape) -> None:
    """A wrapped client sends the same requests as an unwrapped one, and returns the same answer.

    Each LLM call is recorded once, complete, with the server's request. Other calls are not recorded.
    """
    with serving(*shape.call.answers) as server:
        plainly = shape.run(shape.client(server.url)), asked(server)
    with serving(*shape.call.answers) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        wrapped = shape.run(recorder.wrap(shape.client(server.url))), asked(server)

    assert wrapped == plainly
    recorded = [said(call) for call in load(recorder.trajectory_path).llm_interactions]
    expected = [(api, True, None, body) for api, body in zip(shape.call.apis, server.bodies(), strict=False)]
    assert (len(recorded), recorded) == (len(shape.call.apis), expected)


@each_of(OF_EACH_CLIENT.values())
def test_unwrap_restores_a_client(tmp_path: Path, shape: Shape) -> None:
    """`unwrap` restores the earlier transports, and the client's later calls are not recorded."""
    with serving(*shape.call.answers) as server, TrajectoryRecorder(directory=tmp_path, strict=True) as recorder:
        client = shape.client(server.url)
        before = inside(client)
        restored = inside(unwrap(recorder.wrap(client)))
        shape.run(client)

    assert (restored, load(recorder.trajectory_path).llm_interactions) == (before, [])
