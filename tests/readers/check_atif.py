"""Have Harbor and Phoenix read ATIF documents, and Harbor's converter read documents in Trae Agent's format.

needs: Python >= 3.12; harbor==0.24.0 arize-phoenix-client>=3.5
usage: check_atif.py FILE.json ...    from `trace-recorder export --format atif` (with its images) or `--format trae`

Of an ATIF document: Harbor's validator (schema, references, that images are there), the conversations that Harbor makes
of it for training, and the spans that Phoenix makes of it. Of a Trae document: what Harbor converts it to, validated.
"""

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from harbor.agents.installed.trae_agent import TraeAgent
from harbor.utils.traces_utils import MultimodalExportError, extract_conversations_from_trajectory
from harbor.utils.trajectory_validator import TrajectoryValidator
from phoenix.client.helpers.atif import _convert_atif_trajectories_to_spans

RUN = {"model_provider": "p", "model_name": "m", "agent_name": "a", "start_time": "", "run_id": "r"}
trae = TraeAgent(logs_dir=Path(tempfile.mkdtemp()), model_name="provider/model")


def validate(document: object) -> None:
    """Raise where Harbor's validator finds anything."""
    validator = TrajectoryValidator()
    if not validator.validate(document):
        raise ValueError("; ".join(validator.get_errors()))


def _conversations(path: Path) -> str:
    try:
        return f"{len(extract_conversations_from_trajectory(path, RUN))} conversations for training"
    except MultimodalExportError:
        return "none for training, which Harbor makes of texts alone"


def read(path: Path) -> str:
    """Read one file with each reader; say what they made of it."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if "llm_interactions" in document:
        converted = trae._convert_trajectory_to_atif(document)
        if converted is None:
            return "Trae's converter: nothing in it"
        validate(converted.to_json_dict())
        return f"Trae's converter: {len(converted.steps)} steps"
    validate(path)
    training = _conversations(path)
    spans = _convert_atif_trajectories_to_spans([document])
    embedded = len(document.get("subagent_trajectories", ()))
    steps = f"{len(document['steps'])} steps, {embedded} embedded"
    return f"{steps}; {training}; {len(spans)} spans"


failed = 0
for name in sys.argv[1:]:
    try:
        print(f"accepted  {name}: {read(Path(name))}")
    except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
        failed += 1
        print(f"REFUSED   {name}: {type(error).__name__}: {error}")
versions = ", ".join(f"{package} {version(package)}" for package in ("harbor", "arize-phoenix-client"))
print(f"{len(sys.argv) - 1} documents, {failed} not accepted ({versions})")
sys.exit(failed > 0)
