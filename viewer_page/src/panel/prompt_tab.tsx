/** The exact prompt of a call: every message that the model saw, the tools, the parameters. */
import { JsonTree } from "../content/json_tree";
import { MessageLine } from "../content/message_view";
import { visible } from "../content/visible";
import { insertedMessages } from "../data/prompts";
import type { Call } from "../data/types";
import { useRun } from "../run/context";
import { Fold } from "../ui/elements";
import { plural } from "../ui/format";
import { useState } from "preact/hooks";

const PORTION = 200;

export function PromptTab({ call }: { call: Call }) {
  const { outline, prompts, store } = useRun();
  const [shown, setShown] = useState(PORTION);
  const list = prompts.of(call.number);
  const inserted = new Set(insertedMessages(prompts, call));
  const from = Math.max(0, list.length - shown);
  const tools = call.tool_list === null ? [] : (outline.tool_lists[call.tool_list] ?? []);
  return (
    <>
      <h4>{plural(list.length, "message")}</h4>
      {from > 0 && (
        <button type="button" class="link" onClick={() => setShown(shown + 5 * PORTION)}>
          Show {Math.min(from, 5 * PORTION)} earlier ones
        </button>
      )}
      {list.slice(from).map((number, at) => (
        <MessageLine key={from + at} number={number} place={from + at + 1} store={store} mark={inserted.has(number) ? "fresh" : ""} />
      ))}
      <h4>{plural(tools.length, "tool")}</h4>
      {tools.map((tool) => (
        <Fold
          key={tool.name}
          title={
            <>
              <span class="mono">{visible(tool.name)}</span> <span class="muted">{visible((tool.description ?? "").split("\n", 1)[0] ?? "")}</span>
            </>
          }
        >
          {() => <JsonTree value={tool} open={4} />}
        </Fold>
      ))}
      <h4>Parameters</h4>
      <JsonTree value={call.parameters === null ? {} : (outline.parameters[call.parameters] ?? {})} open={3} />
    </>
  );
}
