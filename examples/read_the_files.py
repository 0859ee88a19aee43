"""Read the files back: what did each run cost, which tools did it use, where did it fail?

python examples/read_the_files.py trajectories/*.json
"""

import sys
from collections import Counter

from trace_recorder import load

for path in sys.argv[1:]:
    trajectory = load(path)  # a .json or a .jsonl, of a run that has ended, is still going on, or was killed
    tools = Counter(call.name for step in trajectory.agent_steps for call in step.tool_calls)
    print(f"{path}: {trajectory.task!r} {trajectory.status}, success={trajectory.success}")
    print(f"  {len(trajectory.llm_interactions)} LLM calls, {trajectory.metrics.get('output_tokens', '?')} tokens out")
    print(f"  tools: {dict(tools)}")
    for one in trajectory.llm_interactions:
        said = one.response.content
        print(f"  {one.interaction_id} {one.model}: {len(one.input_messages)} messages in, said {said!r}")
        if one.error or not one.complete:
            print(f"    {one.error or 'in flight when the process ended'}")
