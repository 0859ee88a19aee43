"""Read documents with Harbor's converter from Trae Agent's trajectories to ATIF and its validator, and print a table.

`scripts/check-harbor` runs this in Harbor's own environment. Exits with 1 if a document is not accepted.
"""

import json
import sys
import tempfile
from pathlib import Path

from harbor.agents.installed.trae_agent import TraeAgent
from harbor.utils.trajectory_validator import TrajectoryValidator

agent = TraeAgent(logs_dir=Path(tempfile.mkdtemp()), model_name="provider/model")
failed = 0
for name in sys.argv[1:]:
    document = json.loads(Path(name).read_text(encoding="utf-8"))
    try:
        converted = agent._convert_trajectory_to_atif(document)
    except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
        failed += 1
        print(f"REFUSED   {name}: {type(error).__name__}: {error}")
        continue
    if converted is None:
        print(f"empty     {name}: no interactions and no steps")
        continue
    validator = TrajectoryValidator()
    if not validator.validate(converted.to_json_dict()):
        failed += 1
        print(f"INVALID   {name}: {validator.get_errors()}")
        continue
    calls = sum(len(step.tool_calls or ()) for step in converted.steps)
    answered = sum(len(step.observation.results) for step in converted.steps if step.observation)
    print(f"accepted  {name}: {len(converted.steps)} steps, {calls} tool calls, {answered} with a result")
print(f"{len(sys.argv) - 1} documents, {failed} not accepted")
sys.exit(failed > 0)
