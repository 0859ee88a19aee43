/** The new messages of a prompt, open. The history that it shares with the earlier prompt is folded. */
import { MessageBody, MessageLine, roleClass } from "../content/message_view";
import { visible } from "../content/visible";
import { insertedMessages, promptCounts, type PromptCounts } from "../data/prompts";
import type { Call, Message } from "../data/types";
import { Fold } from "../ui/elements";
import { count, plural } from "../ui/format";
import { useRun } from "./context";
import { Labelled } from "./labelled";

const MOST_SHOWN = 8;

export function NewInPrompt({ call }: { call: Call }) {
  const { store, outline, prompts } = useRun();
  if (!call.prompt.known) return <Labelled label="prompt">{<span class="muted">The request is not on file.</span>}</Labelled>;
  const inserted = insertedMessages(prompts, call);
  const answers = new Set(call.prompt.answers.filter((number) => inserted.includes(number)));
  const others = inserted.filter((number) => !answers.has(number));
  const loaded = others.map((number) => store.message(number));
  const added = new Set(prompts.editsOf(call).flatMap(({ gone, come }) => (gone.length === 0 ? come : [])));
  const fresh = loaded.filter((one) => one && !(added.has(one.number) && repeatsResult(one, call, outline.steps.length > 0))) as Message[];
  const results = loaded.filter((one) => one && !fresh.includes(one)).length;
  return (
    <>
      <Labelled label="prompt">
        <PromptLine call={call} answers={answers.size} results={results} fresh={fresh.length} />
      </Labelled>
      {loaded.some((one) => !one) && <Labelled label="">{<span class="muted">Loading…</span>}</Labelled>}
      {fresh.slice(0, MOST_SHOWN).map((message) => (
        <Labelled key={message.number} label={<span class={roleClass(message.role)}>{visible(message.role)}</span>} look="new-message">
          <MessageBody message={message} store={store} />
        </Labelled>
      ))}
      {fresh.length > MOST_SHOWN && (
        <Labelled label="">
          <Fold title={`${count(fresh.length - MOST_SHOWN)} more new messages`}>
            {() => fresh.slice(MOST_SHOWN).map((one) => <MessageLine key={one.number} number={one.number} store={store} />)}
          </Fold>
        </Labelled>
      )}
    </>
  );
}

/** The step that ran the tools shows their results. */
function repeatsResult(message: Message, call: Call, hasSteps: boolean): boolean {
  return hasSteps && message.role === "tool" && call.prompt.base !== null;
}

function PromptLine({ call, answers, results, fresh }: { call: Call; answers: number; results: number; fresh: number }) {
  const { prompts } = useRun();
  const counts = promptCounts(prompts, call);
  const seen = [
    answers > 0 ? (answers === 1 ? "the answer above" : `${answers} answers above`) : "",
    results > 0 ? `${plural(results, "result")} above` : "",
    fresh > 0 && call.prompt.base !== null ? `${fresh} new or changed` : "",
  ].filter(Boolean);
  return (
    <div class="prompt-line">
      <span>{plural(call.prompt.count, "message")}</span>
      {counts.same > 0 && (
        <Fold class="inline" title={`${count(counts.same)} as before`}>
          {() => <History call={call} />}
        </Fold>
      )}
      {seen.length > 0 && <span class="muted">{seen.join(", ")}</span>}
      <Rewritten call={call} counts={counts} />
    </div>
  );
}

/** Says how the history was changed, if it was not only continued. */
function Rewritten({ call, counts }: { call: Call; counts: PromptCounts }) {
  const { openCall, outline } = useRun();
  const before = outline.interactions[(call.prompt.base ?? 0) - 1];
  const what: string[] = [];
  if (call.prompt.relation === "edits" || call.prompt.relation === "rewrites") {
    if (counts.changed) what.push(`${count(counts.changed)} changed`);
    if (counts.removed) what.push(`${count(counts.removed)} removed`);
    if (!what.length) what.push("messages inserted");
  }
  if (before && before.tool_list !== call.tool_list) what.push("other tools");
  if (before && before.parameters !== call.parameters) what.push("other parameters");
  if (what.length === 0) return null;
  const word = call.prompt.relation === "rewrites" ? "History rewritten" : call.prompt.relation === "edits" ? "History edited" : "Request changed";
  return (
    <button type="button" class="rewritten" onClick={() => openCall(call.number, "changes")}>
      {word}: {what.join(", ")}
    </button>
  );
}

function History({ call }: { call: Call }) {
  const { prompts, store } = useRun();
  const inserted = new Set(insertedMessages(prompts, call));
  const list = prompts.of(call.number).map((number, at) => ({ number, place: at + 1 })).filter((one) => !inserted.has(one.number));
  const shown = list.slice(-60);
  return (
    <div class="history">
      {list.length > shown.length && <div class="muted">The last {shown.length}; all are in Details, Prompt.</div>}
      {shown.map((one) => (
        <MessageLine key={one.place} number={one.number} place={one.place} store={store} />
      ))}
    </div>
  );
}
