/** The answer of a call, its usage, its cost, and other members of the response. */
import { JsonTree } from "../content/json_tree";
import { PartView } from "../content/parts";
import { visible } from "../content/visible";
import type { Call, Response } from "../data/types";
import { useRun } from "../run/context";
import { costNote, costOf, costText, count, percent } from "../ui/format";
import { ReplayedFrom } from "../ui/relations";
import { Incomplete } from "../run/incomplete";
import { Labelled } from "../run/labelled";

export function AnswerTab({ call }: { call: Call }) {
  const { store, outline } = useRun();
  const answer = store.answer(call.number);
  if (!answer) return <p class="muted">Loading…</p>;
  const whole = () => store.wholeAnswer(call.number);
  const response = answer.response;
  return (
    <>
      <Usage call={call} />
      {call.replayed_from && (
        <p>
          <ReplayedFrom call={call} outline={outline} />
        </p>
      )}
      {answer.error && (
        <Labelled label="error" look="bad">
          <div class="mono">
            {visible(answer.error.type)}: {visible(answer.error.message)}
          </div>
        </Labelled>
      )}
      {!response && <p class="muted">There is no answer.</p>}
      <Incomplete call={call} />
      {response?.parts.map((part, at) => (
        <Labelled key={at} label={part.type === "text" ? "answer" : part.type.replace("_", " ")} look={part.type}>
          <PartView part={part} markdown whole={whole} />
        </Labelled>
      ))}
      {response?.audio_end_ms !== undefined && (
        <Labelled label="heard" look="bad">
          the first {count(response.audio_end_ms)} ms, then the user interrupted
        </Labelled>
      )}
      {response && <Rest response={response} whole={whole} />}
    </>
  );
}

function Usage({ call }: { call: Call }) {
  const usage = call.usage ?? {};
  const costs = costOf([call]);
  const rows: [string, string][] = [
    ["Model", visible(call.model ?? "")],
    ["Provider", visible([call.provider, call.api].filter(Boolean).join(", "))],
    ["Finish reason", visible(call.finish_reason ?? "")],
    ["Prompt tokens", count(call.prompt_tokens)],
    ["Answer tokens", count(call.completion_tokens)],
    ["of which reasoning", count(usage.reasoning_tokens)],
    ["Read from the cache", `${count(usage.cache_read_input_tokens)} ${usage.cache_read_input_tokens && call.prompt_tokens ? `(${percent(usage.cache_read_input_tokens, call.prompt_tokens)})` : ""}`.trim()],
    ["Written to the cache", count(usage.cache_creation_input_tokens)],
    ["Cost", call.cost == null ? "" : `${costText(costs)}, ${costNote(costs)}`],
  ];
  return (
    <dl class="table-list">
      {rows.filter(([, value]) => value).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Rest({ response, whole }: { response: Response; whole: () => Promise<void> }) {
  const rest = { id: response.id, model: response.model, usage: response.usage };
  const more = [response.extra, response.given].filter((part) => part != null);
  return (
    <>
      <h4>Also in the response</h4>
      <JsonTree value={rest} open={2} />
      {more.map((part, at) => (
        <PartView key={at} part={part} whole={whole} />
      ))}
      {(response.choices?.length ?? 0) > 0 && (
        <>
          <h4>Choices</h4>
          <JsonTree value={response.choices} open={2} />
        </>
      )}
    </>
  );
}
