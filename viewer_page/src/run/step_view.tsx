/** One row of the transcript: the new messages of the prompt, the answer of the model, and the tools. */
import type { ComponentChildren } from "preact";
import { MessageBody, roleClass } from "../content/message_view";
import { PartView } from "../content/parts";
import { visible } from "../content/visible";
import { hashOf } from "../data/route";
import { agentName, ownCall, rowNumber, type StepRow } from "../data/rows";
import type { Answer, Call, Part, StepDetail, ToolOutline } from "../data/types";
import { Fold } from "../ui/elements";
import { clock, count, duration, percent } from "../ui/format";
import { ReplayedFrom } from "../ui/relations";
import { useRun } from "./context";
import { Incomplete } from "./incomplete";
import { Labelled } from "./labelled";
import { NewInPrompt } from "./new_in_prompt";
import { ToolView } from "./tool_view";

export function StepView({ row }: { row: StepRow }) {
  const { store } = useRun();
  const detail = row.step ? store.step(row.step.number) : undefined;
  const last = ownCall(row);
  const number = row.step?.number ?? 0;
  const wholeStep = () => store.wholeStep(number);
  return (
    <>
      <StepHead row={row} />
      {row.calls.map((call) => (
        <CallView key={call.number} call={call} row={row} />
      ))}
      {row.calls.length === 0 && detail && <OwnRecord detail={detail} />}
      <Tools row={row} detail={detail} call={last} />
      {row.step?.reflection && (
        <Labelled label="reflection">
          <PartView part={detail?.reflection ?? { type: "text", text: row.step.reflection }} markdown whole={wholeStep} />
        </Labelled>
      )}
      {row.step?.error && (
        <Labelled label="error" look="bad">
          <PartView part={detail?.error ?? { type: "text", text: row.step.error }} whole={wholeStep} />
        </Labelled>
      )}
    </>
  );
}

function StepHead({ row }: { row: StepRow }) {
  const { outline, openCall, store, tree } = useRun();
  const call = ownCall(row);
  const agent = agentName(outline, row.agent);
  const starter = row.agent === null ? undefined : tree.startedIn.get(row.agent);
  const to = row.step ? { page: "run" as const, run: store.id, step: row.step.number } : { page: "run" as const, run: store.id, call: call?.number };
  return (
    <header class="step-head">
      <h3>
        <a href={hashOf(to)} title="Link to this step">
          {row.step ? `Step ${rowNumber(row)}` : "Call"}
        </a>
      </h3>
      {agent && <span class="agent-name">{visible(agent)}</span>}
      {starter?.step && (
        <span class="muted">
          in <a href={hashOf({ page: "run", run: store.id, step: starter.step.number })}>step {rowNumber(starter)}</a>
        </span>
      )}
      {row.step && !row.step.derived && <span class="muted">{visible(row.step.state)}</span>}
      <CallFigures call={call} />
      <span class="spacer" />
      <time class="muted when" dateTime={row.step?.timestamp ?? call?.timestamp ?? undefined}>
        {clock(row.step?.timestamp ?? call?.timestamp)}
      </time>
      {call && (
        <span class="actions">
          <button type="button" class="small" onClick={() => openCall(call.number, "changes")}>
            Changes
          </button>
          <button type="button" class="small" onClick={() => openCall(call.number, "answer")}>
            Details
          </button>
        </span>
      )}
    </header>
  );
}

function CallFigures({ call }: { call: Call | undefined }) {
  const { outline } = useRun();
  if (!call) return null;
  const cached = call.usage?.cache_read_input_tokens ?? 0;
  const failed = call.attempts.filter((one) => one.error).length;
  const isWaiting = call.duration_seconds === null && call.error === null && outline.run.status === "running";
  return (
    <span class="figures">
      <span title="model">{visible(call.model ?? call.provider ?? "")}</span>
      {call.duration_seconds !== null && <span title={failed > 0 ? "duration, with all attempts" : "duration"}>{duration(call.duration_seconds)}</span>}
      {call.run_inferred && <span title="The call had no context, and this was the only open run.">run inferred</span>}
      {call.side_call && <span title="The program asked this beside its conversation, such as for a title.">side call</span>}
      <ReplayedFrom call={call} outline={outline} />
      {isWaiting && <span class="live">waiting…</span>}
      {call.prompt_tokens !== null && (
        <span title="tokens: prompt → answer">
          {count(call.prompt_tokens)} → {count(call.completion_tokens)} tokens
        </span>
      )}
      {cached > 0 && call.prompt_tokens !== null && <span title="of the prompt, read from the cache">{percent(cached, call.prompt_tokens)} cached</span>}
      {failed > 0 && <span class="warn">{failed === 1 ? "1 failed attempt" : `${failed} failed attempts`}</span>}
    </span>
  );
}

/** A call of a step: its prompt, its answer, and the sub-agent that made it. The tools follow once for the whole step. */
function CallView({ call, row }: { call: Call; row: StepRow }) {
  const { store, outline } = useRun();
  const agent = call.agent === row.agent ? null : agentName(outline, call.agent);
  const answer = store.answer(call.number);
  return (
    <>
      {(row.calls.length > 1 || agent) && (
        <Labelled label={agent ? "sub-agent" : "call"}>
          {agent && <span class="agent-name">{visible(agent)} </span>}
          <a class="mono" href={hashOf({ page: "run", run: store.id, call: call.number })} title="Link to this call">
            {visible(call.id)}
          </a>{" "}
          <CallFigures call={call} />
        </Labelled>
      )}
      <NewInPrompt call={call} />
      <AnswerView call={call} answer={answer} />
      {call.error && (
        <Labelled label="error" look="bad">
          <div class="mono">
            {visible(call.error.type)}
            {call.error.status ? ` (HTTP ${call.error.status})` : ""}: {visible(call.error.message)}
          </div>
        </Labelled>
      )}
      <Incomplete call={call} />
    </>
  );
}

function AnswerView({ call, answer }: { call: Call; answer: Answer | undefined }) {
  const { store } = useRun();
  if (!answer) return call.excerpt ? <Labelled label="answer">{visible(call.excerpt)}</Labelled> : null;
  const whole = () => store.wholeAnswer(call.number);
  const parts = answer.response?.parts ?? [];
  return (
    <>
      {parts.filter((part) => part.type !== "tool_call").map((part, at) => (
        <AnswerPart key={at} part={part} whole={whole} />
      ))}
      {(answer.response?.choices?.length ?? 0) > 1 && (
        <Labelled label="choices">
          <Fold title={`${answer.response?.choices?.length} choices`}>
            {() => answer.response?.choices?.map((choice) => (
              <Labelled key={choice.index} label={`choice ${choice.index}`}>
                {choice.parts.map((part, at) => <PartView key={at} part={part} markdown whole={whole} />)}
              </Labelled>
            ))}
          </Fold>
        </Labelled>
      )}
    </>
  );
}

function AnswerPart({ part, whole }: { part: Part; whole: () => Promise<void> }) {
  if (part.type === "reasoning") {
    return (
      <Labelled label="reasoning" look="reasoning">
        <PartView part={part} whole={whole} />
      </Labelled>
    );
  }
  return (
    <Labelled label={part.type === "text" ? "answer" : part.type} look="answer">
      <PartView part={part} markdown whole={whole} />
    </Labelled>
  );
}

function Tools({ row, detail, call }: { row: StepRow; detail: StepDetail | undefined; call: Call | undefined }) {
  const { store } = useRun();
  const answers = row.calls.flatMap((one) => store.answer(one.number)?.response?.parts ?? []);
  const asked = new Map(answers.flatMap((part) => (part.type === "tool_call" ? [[part.call_id, part] as const] : [])));
  const tools: ToolOutline[] = row.step ? row.step.tool_calls : (call?.tool_calls ?? []).map(unanswered);
  return (
    <>
      {tools.map((tool, at) => (
        <ToolView
          key={`${tool.call_id}-${at}`}
          outline={tool}
          detail={detail?.tool_calls[at]}
          asked={asked.get(tool.call_id)}
          step={row.step?.number ?? null}
          store={store}
        />
      ))}
    </>
  );
}

function unanswered(call: Call["tool_calls"][number]): ToolOutline {
  const unknown = { start_seconds: null, duration_seconds: null, error: null, excerpt: null, result_excerpt: null };
  return { ...call, ...unknown, success: null, answered: false };
}

/** A step that the agent recorded with messages and an answer of its own, which no captured call has. */
function OwnRecord({ detail }: { detail: StepDetail }) {
  const { store } = useRun();
  const messages: ComponentChildren = detail.messages?.map((message, at) => (
    <Labelled key={at} label={<span class={roleClass(message.role)}>{visible(message.role)}</span>}>
      <MessageBody message={message} store={store} />
    </Labelled>
  ));
  return (
    <>
      {messages}
      {detail.response?.parts.filter((part) => part.type !== "tool_call").map((part, at) => (
        <AnswerPart key={at} part={part} whole={() => store.wholeStep(detail.number)} />
      ))}
    </>
  );
}
