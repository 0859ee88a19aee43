"""Have Harbor and Phoenix read ATIF documents, and Harbor's converter read documents in Trae Agent's format.

needs: Python >= 3.12; harbor==0.25.0 arize-phoenix-client>=3.5
usage: PYTHONPATH=. python -m tests.readers.check_atif DIRECTORY

For an ATIF document, Harbor's validator checks the schema, the references, and that images exist. Harbor then makes
conversations for training of it, and Phoenix makes spans. A Trae document, such as our own document, is converted by
Harbor, and the result is validated.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harbor.agents.installed.trae_agent import TraeAgent
from harbor.models.trajectories import Trajectory
from harbor.utils.traces_utils import MultimodalExportError, extract_conversations_from_trajectory
from harbor.utils.trajectory_validator import TrajectoryValidator
from phoenix.client.helpers.atif import _convert_atif_trajectories_to_spans

from tests.readers.contents import Contents
from tests.readers.reading import Reader, documents, files, finish, run_files

RUN = {"model_provider": "p", "model_name": "m", "agent_name": "a", "start_time": "", "run_id": "r"}


def validate(document: object) -> None:
    """Raise if Harbor's validator has findings."""
    validator = TrajectoryValidator()
    if not validator.validate(document):
        raise ValueError("; ".join(validator.get_errors()))


def convert(document: dict[str, Any]) -> None:
    """Have Harbor convert a document in Trae Agent's format to ATIF, and validate the result. An empty document has no
    result.
    """
    made = trae._convert_trajectory_to_atif(document)
    if made is None:
        assert not [*document["llm_interactions"], *document["agent_steps"]], "nothing was made of it"
    else:
        validate(made.to_json_dict())


def messages_in(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every message in a document."""
    for one in document["llm_interactions"]:
        yield from one.get("input_messages") or ()
        yield one["response"]
    for step in document["agent_steps"]:
        yield from step["llm_messages"] or ()
        yield step["llm_response"] or {}


def train(path: Path) -> None:
    """Have Harbor make conversations of an ATIF document, which it does only for texts."""
    try:
        extract_conversations_from_trajectory(path, RUN)
    except MultimodalExportError:
        training.pass_over("with images")
        training.accepted -= 1


def spans(path: Path) -> None:
    """Have Phoenix make spans: at least one for each document."""
    assert _convert_atif_trajectories_to_spans([json.loads(path.read_text(encoding="utf-8"))])


trae = TraeAgent(logs_dir=Path(tempfile.mkdtemp()), model_name="provider/model")
valid = Reader("Harbor: ATIF validator", "ATIF documents", "harbor")
training = Reader("Harbor: conversations for training", "ATIF documents", "harbor")
phoenix = Reader("Phoenix: spans", "ATIF documents", "arize-phoenix-client")
converted = Reader("Harbor: Trae to ATIF, validated", "Trae documents", "harbor")
own = Reader("Harbor: Trae to ATIF, validated", "the recorder's own documents", "harbor")
for file in files("atif"):
    valid.take(file.name, lambda file=file: validate(file))
    training.take(file.name, lambda file=file: train(file))
    phoenix.take(file.name, lambda file=file: spans(file))
for name, held in documents("trae"):
    converted.take(name, lambda held=held: convert(held))
for file in run_files("json"):
    document = json.loads(file.read_text(encoding="utf-8"))
    if any(isinstance(message.get("content"), dict) for message in messages_in(document)):
        own.pass_over("JSON cannot express one of its texts, so an object describes it")
    else:
        own.take(file.name, lambda document=document: convert(document))
contents = Contents("Harbor: contents of ATIF", "atif", "harbor")
contents.hold(lambda held, _: [Trajectory.model_validate(one).to_json_dict() for one in held])
finish(valid, training, phoenix, converted, own, contents)
