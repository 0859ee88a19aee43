/**
 * Two runs side by side: which steps agree, and where they part. Steps agree if their answers, their tool calls and the
 * results are equal; ids, times, tokens and models are left aside.
 */
import { diffArrays } from "diff";
import { partText } from "../content/as_text";
import type { StepRow } from "../data/rows";
import type { RunStore } from "../data/run_store";
import type { Answer, Part, StepDetail } from "../data/types";

export interface Side {
  row: StepRow;
  answer: string;
  tools: string;
  results: string;
  failed: boolean;
}

export interface Pair {
  a: Side | null;
  b: Side | null;
  same: boolean;
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
    tools: [...tools.map((tool) => `${tool.name ?? ""} ${tool.arguments ? partText(tool.arguments) : ""}`), ...parts.flatMap(asked)].join("\n"),
    results: tools
      .flatMap((tool) => [...(tool.result?.error ? [tool.result.error] : []), ...(tool.result?.parts ?? [])].map(partText))
      .join("\n"),
    failed: row.failed,
  };
}

function signature(side: Side): string {
  return JSON.stringify([side.answer, side.tools, side.results]);
}

/** Pair the steps of two runs in their order. */
export function aligned(a: Side[], b: Side[]): Pair[] {
  const pairs: Pair[] = [];
  let [left, right] = [0, 0];
  let only: { a: Side[]; b: Side[] } = { a: [], b: [] };
  const flush = () => {
    for (let at = 0; at < Math.max(only.a.length, only.b.length); at += 1) {
      pairs.push({ a: only.a[at] ?? null, b: only.b[at] ?? null, same: false });
    }
    only = { a: [], b: [] };
  };
  for (const { added, removed, value } of diffArrays(a.map(signature), b.map(signature))) {
    if (removed) only.a.push(...a.slice(left, left + value.length));
    else if (added) only.b.push(...b.slice(right, right + value.length));
    else {
      flush();
      for (let at = 0; at < value.length; at += 1) pairs.push({ a: a[left + at] ?? null, b: b[right + at] ?? null, same: true });
    }
    if (!added) left += value.length;
    if (!removed) right += value.length;
  }
  flush();
  return pairs;
}

/** What differs in a pair, in words. */
export function differing({ a, b }: Pair): string {
  if (!a) return "only in B";
  if (!b) return "only in A";
  const what = [
    a.answer === b.answer ? "" : "answer",
    a.tools === b.tools ? "" : "tool calls",
    a.results === b.results ? "" : "results",
  ].filter(Boolean);
  return what.length > 0 ? `different ${what.join(", ")}` : "";
}
