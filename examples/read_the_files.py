"""Read the files: the tokens, tools and failures of each run.

python examples/read_the_files.py trajectories/*.json
"""

import sys
from collections import Counter

from trace_recorder import load

for path in sys.argv[1:]:
    trajectory = load(path)  # a .json or a .jsonl of a run that has ended, goes on, or was killed
    tools = Counter(call.name for step in trajectory.agent_steps for call in step.tool_calls)
    print(f"{path}: {trajectory.task!r} {trajectory.status}, success={trajectory.success}")
    print(f"  {len(trajectory.llm_interactions)} LLM calls, {trajectory.metrics.get('output_tokens', '?')} tokens out")
    print(f"  tools: {dict(tools)}")
    for call in trajectory.llm_interactions:
        content = call.response.content
        print(f"  {call.interaction_id} {call.model}: {len(call.input_messages)} messages in, said {content!r}")
        if call.error or not call.complete:
            print(f"    {call.error or 'in flight when the process ended'}")
