/** Two runs side by side: the pairs of their comparison, each with the steps of both runs. */
import { withoutSequences } from "../content/ansi";
import { argumentsText, partText } from "../content/as_text";
import type { StepRow } from "../data/rows";
import type { RunStore } from "../data/run_store";
import type { Answer, ComparedStep, Comparison, Difference, Part, StepDetail } from "../data/types";

export interface Side {
  row: StepRow;
  answer: string;
  tools: string;
  results: string;
  failed: boolean;
}

export interface Pair {
  number: number;
  a: Side | null;
  b: Side | null;
  differs: Difference[];
}

export async function sidesOf(store: RunStore, rows: StepRow[]): Promise<Side[]> {
  const calls = rows.flatMap((row) => row.calls.map((call) => call.number));
  const steps = rows.flatMap((row) => row.step?.number ?? []);
  const answers = new Map((await store.allAnswers(calls)).map((one) => [one.number, one]));
  const details = new Map((await store.allSteps(steps)).map((one) => [one.number, one]));
  return rows.map((row) => sideOf(row, answers, details));
}

function sideOf(row: StepRow, answers: Map<number, Answer>, details: Map<number, StepDetail>): Side {
  const detail = details.get(row.step?.number ?? 0);
  const own = detail?.response?.parts ?? [];
  const parts = row.calls.flatMap((call) => answers.get(call.number)?.response?.parts ?? []);
  const errors = row.calls.flatMap((call) => (call.error ? `${call.error.type}: ${call.error.message}` : []));
  const tools = detail?.tool_calls ?? [];
  const asked = (part: Part) => (part.type === "tool_call" && tools.length === 0 ? [partText(part)] : []);
  return {
    row,
    answer: [...[...parts, ...own].filter((part) => part.type === "text").map(partText), ...errors].join("\n\n"),
    tools: [...tools.map((tool) => `${tool.name ?? ""}\n${toolText(tool.arguments)}`), ...parts.flatMap(asked)].join("\n"),
    results: tools
      .flatMap((tool) => [...(tool.result?.error ? [tool.result.error] : []), ...(tool.result?.parts ?? [])].map(partText))
      .map(withoutSequences)
      .join("\n"),
    failed: row.failed,
  };
}

function toolText(part: Part | null): string {
  if (!part) return "";
  return part.type === "json" && !part.cut ? argumentsText(part.value) : partText(part);
}

/** The pairs of a comparison with the steps of both runs. */
export function pairsOf(comparison: Comparison, a: Side[], b: Side[]): Pair[] {
  const [left, right] = [finder(a), finder(b)];
  return comparison.pairs.map((pair, number) => ({ number, a: left(pair.a), b: right(pair.b), differs: pair.differs }));
}

function finder(sides: Side[]): (place: ComparedStep | null) => Side | null {
  const steps = new Map(sides.flatMap((side) => (side.row.step ? [[side.row.step.number, side] as const] : [])));
  const calls = new Map(sides.flatMap((side) => side.row.calls.map((call) => [call.number, side] as const)));
  return (place) => {
    if (!place) return null;
    return (place.step === null ? undefined : steps.get(place.step)) ?? calls.get(place.interaction ?? 0) ?? null;
  };
}

export const WORDS: Record<Difference, string> = {
  prompt: "prompt",
  model: "model",
  tools: "tools",
  parameters: "parameters",
  answer: "answer",
  tool_call: "tool calls",
  tool_result: "results",
  missing: "",
};

/** The differences of a pair, in words. */
export function differing({ a, b, differs }: Pair): string {
  if (!a) return "only in B";
  if (!b) return "only in A";
  return differs.length > 0 ? `different ${differs.map((one) => WORDS[one] ?? one).join(", ")}` : "";
}
