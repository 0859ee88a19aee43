/** The search in a run: in the new messages of each prompt, the answers, the tools and their results. */
import { withoutSequences } from "../content/ansi";
import { partText } from "../content/as_text";
import { insertedMessages, Prompts } from "./prompts";
import type { RowTree, StepRow } from "./rows";
import type { RunStore } from "./run_store";
import type { Answer, Call, Message, Outline, Part, StepDetail, ToolDetail } from "./types";

export interface Hit {
  row: StepRow;
  /** The place in the row: a role, "answer", "tool" or "result". */
  where: string;
  before: string;
  match: string;
  after: string;
}

interface Entry {
  row: StepRow;
  where: string;
  text: string;
  lower: string;
}

const AROUND = 60;
const MOST_HITS = 500;

/** The texts of a run. They are made once for each version. */
export class SearchIndex {
  private constructor(private readonly entries: Entry[]) {}

  static async of(store: RunStore, outline: Outline, tree: RowTree): Promise<SearchIndex> {
    const prompts = new Prompts(outline.interactions);
    const fresh = new Map(outline.interactions.map((call) => [call.number, freshMessages(prompts, call)]));
    const numbers = [...new Set([...fresh.values()].flat())];
    const messages = new Map((await store.allMessages(numbers)).map((one) => [one.number, one]));
    const answers = new Map((await store.allAnswers(outline.interactions.map((one) => one.number))).map((one) => [one.number, one]));
    const steps = new Map((await store.allSteps(outline.steps.map((one) => one.number))).map((one) => [one.number, one]));
    return new SearchIndex(tree.all.flatMap((row) => entriesOf(row, fresh, messages, answers, steps)));
  }

  find(wanted: string): { hits: Hit[]; all: number } {
    const lower = wanted.toLowerCase();
    const hits: Hit[] = [];
    let all = 0;
    if (!lower) return { hits, all };
    for (const entry of this.entries) {
      for (let at = entry.lower.indexOf(lower); at >= 0; at = entry.lower.indexOf(lower, at + lower.length)) {
        all += 1;
        if (hits.length < MOST_HITS) hits.push(hit(entry, at, wanted.length));
      }
    }
    return { hits, all };
  }
}

function hit({ row, where, text }: Entry, at: number, length: number): Hit {
  const start = Math.max(0, at - AROUND);
  return {
    row,
    where,
    before: (start > 0 ? "…" : "") + text.slice(start, at),
    match: text.slice(at, at + length),
    after: text.slice(at + length, at + length + 2 * AROUND),
  };
}

/** The new messages of a call, without those that repeat an answer. */
function freshMessages(prompts: Prompts, call: Call): number[] {
  const answers = new Set(call.prompt.answers);
  return insertedMessages(prompts, call).filter((one) => !answers.has(one));
}

function entriesOf(
  row: StepRow,
  fresh: Map<number, number[]>,
  messages: Map<number, Message>,
  answers: Map<number, Answer>,
  steps: Map<number, StepDetail>,
): Entry[] {
  const entries: Entry[] = [];
  const add = (where: string, text: string | null | undefined) => {
    if (!text) return;
    const shown = withoutSequences(text);
    entries.push({ row, where, text: shown, lower: shown.toLowerCase() });
  };
  for (const call of row.calls) {
    for (const number of fresh.get(call.number) ?? []) {
      const message = messages.get(number);
      if (message && (message.role !== "tool" || call.prompt.base === null)) add(message.role, recordedText(message.parts));
    }
    for (const part of answers.get(call.number)?.response?.parts ?? []) {
      if (part.type !== "tool_call" || row.step === null) add(part.type === "reasoning" ? "reasoning" : "answer", recordedText([part]));
    }
    add("error", call.error && `${call.error.type}: ${call.error.message}`);
  }
  const detail = row.step ? steps.get(row.step.number) : undefined;
  for (const tool of detail?.tool_calls ?? []) addTool(tool, add);
  add("reflection", detail?.reflection && recordedText([detail.reflection]));
  add("error", row.step?.error);
  for (const message of detail?.messages ?? []) add(message.role, recordedText(message.parts));
  for (const part of detail?.response?.parts ?? []) add("answer", recordedText([part]));
  return entries;
}

/** The recorded text of some parts, without words of the page. An image has only its address. */
function recordedText(parts: Part[]): string {
  return parts.map((part) => (part.type === "image" ? (part.url ?? "") : partText(part))).join("\n\n");
}

function addTool(tool: ToolDetail, add: (where: string, text: string) => void): void {
  add("tool", `${tool.name ?? ""} ${tool.arguments ? recordedText([tool.arguments]) : ""}`);
  if (tool.result?.error) add("result", recordedText([tool.result.error]));
  for (const part of tool.result?.parts ?? []) add("result", recordedText([part]));
}
