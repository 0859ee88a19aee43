/** A tool call: its arguments, its result and its time. */
import type { ComponentChildren } from "preact";
import { partText } from "../content/as_text";
import { Drawn } from "../content/drawn";
import { Arguments, PartView, Parts } from "../content/parts";
import { visible } from "../content/visible";
import type { RunStore } from "../data/run_store";
import type { Part, ToolDetail, ToolOutline } from "../data/types";
import { duration } from "../ui/format";
import { Labelled } from "./labelled";
import { Seen, ServerCalls } from "./server_view";

interface Props {
  outline: ToolOutline;
  detail: ToolDetail | undefined;
  /** The arguments of the model, if the step has no arguments. */
  asked?: Part | undefined;
  step: number | null;
  store: RunStore;
}

export function ToolView({ outline, detail, asked, step, store }: Props) {
  const whole = step === null ? undefined : () => store.wholeStep(step);
  const state = toolState(outline);
  return (
    <div class={`tool ${state.look}`}>
      <Labelled label="tool">
        <div class="tool-head">
          <span class="tool-name">{visible(outline.name ?? "tool")}</span>
          <span class={`tool-state ${state.look}`}>{state.word}</span>
          <span class="muted">{duration(outline.duration_seconds)}</span>
          {outline.replayed && <span class="replayed">replayed</span>}
          {detail?.unrequested && <span class="muted">not asked for by this answer</span>}
        </div>
        <ToolArguments detail={detail} asked={asked} whole={whole} fallback={outline.excerpt} />
      </Labelled>
      <ToolResultView outline={outline} detail={detail} whole={whole} />
    </div>
  );
}

function ToolArguments(props: {
  detail: ToolDetail | undefined;
  asked: Part | undefined;
  whole: (() => Promise<void>) | undefined;
  fallback: string | null;
}) {
  const part = props.detail?.arguments ?? props.asked;
  if (!part) return <div class="mono muted">{visible(props.fallback ?? "")}</div>;
  if (part.cut || (part.type !== "json" && part.type !== "tool_call")) return <PartView part={part} whole={props.whole} />;
  return (
    <Drawn of={part} text={() => partText(part)}>
      <Arguments value={part.type === "json" ? part.value : part.arguments} />
    </Drawn>
  );
}

function ToolResultView({ outline, detail, whole }: { outline: ToolOutline; detail: ToolDetail | undefined; whole: (() => Promise<void>) | undefined }) {
  const result = detail?.result;
  if (!result) {
    const text = outline.error ?? outline.result_excerpt;
    if (outline.answered === false || !text) return null;
    return <Labelled label="result">{<div class="mono muted">{visible(text)}</div>}</Labelled>;
  }
  return (
    <>
      {result.error && (
        <Labelled label="error" look="bad">
          <PartView part={result.error} whole={whole} />
        </Labelled>
      )}
      {result.parts.length > 0 && (
        <Labelled label="result">
          <Result>
            <Parts parts={result.parts} whole={whole} />
          </Result>
        </Labelled>
      )}
      {result.sent && result.sent.length > 0 && !repeatsError(result) && <Sent result={result} sent={result.sent} whole={whole} />}
      {result.mcp && <ServerCalls calls={result.mcp} whole={whole} />}
    </>
  );
}

/** What the agent passed on to the model. If servers gave the result, the difference is marked. */
function Sent({ result, sent, whole }: { result: NonNullable<ToolDetail["result"]>; sent: Part[]; whole: (() => Promise<void>) | undefined }) {
  if (result.mcp) return <Seen returned={result.parts} seen={sent} whole={whole} />;
  return (
    <Labelled label="sent">
      <Result>
        <Parts parts={sent} whole={whole} />
      </Result>
    </Labelled>
  );
}

/** Whether the model got only the error that is shown above. */
function repeatsError({ sent, error }: NonNullable<ToolDetail["result"]>): boolean {
  const only = sent?.length === 1 ? sent[0] : undefined;
  return only?.type === "text" && error?.type === "text" && only.text === error.text;
}

function Result({ children }: { children: ComponentChildren }) {
  return <div class="result">{children}</div>;
}

export function toolState(tool: ToolOutline): { look: string; word: string } {
  if (tool.success === false) return { look: "failed", word: "failed" };
  if (tool.answered === false) return { look: "open", word: "no result" };
  if (tool.success === true) return { look: "done", word: "ok" };
  return { look: "done", word: "" };
}
