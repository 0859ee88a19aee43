/** The prompt of a call as a list of message numbers, and its differences from the prompt that it continues. */
import { diffArrays } from "diff";
import { jsonText } from "../content/json_text";
import { numbersIn } from "./source";
import type { Call, Outline, Tool } from "./types";

const REMEMBERED = 40;

/** The message numbers of prompts. The last few are remembered, because a prompt is made from the prompt that it continues. */
export class Prompts {
  private readonly known = new Map<number, number[]>();
  private readonly edits = new Map<number, Edit[]>();

  constructor(private readonly calls: Call[]) {}

  of(number: number): number[] {
    const chain: Call[] = [];
    let list: number[] | undefined;
    for (let call = this.calls[number - 1]; call; call = this.calls[(call.prompt.base ?? 0) - 1]) {
      list = this.known.get(call.number);
      if (list) break;
      chain.push(call);
      if (call.prompt.base === null || call.prompt.relation === "refers") break;
    }
    list ??= [];
    for (const call of chain.reverse()) list = applied(call, list);
    this.remember(number, list);
    return list;
  }

  /** The changes of a call in the prompt before it, in order. Unchanged messages inside a longer change are left out. */
  editsOf(call: Call): Edit[] {
    let edits = this.edits.get(call.number);
    if (!edits) {
      const before = this.before(call);
      edits = call.prompt.changes.flatMap(([at, removed, inserted]) => refined(at, before.slice(at, at + removed), [...numbersIn(inserted)]));
      this.edits.set(call.number, edits);
    }
    return edits;
  }

  /** The prompt that a call continues. */
  private before(call: Call): number[] {
    const isNeeded = call.prompt.base !== null && call.prompt.changes.some(([, removed]) => removed > 0);
    return isNeeded && call.prompt.relation !== "refers" ? this.of(call.prompt.base ?? 0) : [];
  }

  private remember(number: number, list: number[]): void {
    this.known.delete(number);
    this.known.set(number, list);
    if (this.known.size > REMEMBERED) this.known.delete(this.known.keys().next().value ?? 0);
  }
}

function applied(call: Call, before: number[]): number[] {
  const list = call.prompt.relation === "refers" ? [] : before.slice();
  for (const [position, removed, inserted] of [...call.prompt.changes].reverse()) {
    const added = [...numbersIn(inserted)];
    list.splice(position, removed, ...added);
  }
  return list;
}

/** At a place of the earlier prompt, some messages were removed and others added. */
export interface Edit {
  at: number;
  gone: number[];
  come: number[];
}

const MOST_COMPARED = 3000;

function refined(at: number, gone: number[], come: number[]): Edit[] {
  if (gone.length === 0 || come.length === 0 || gone.length + come.length > MOST_COMPARED) return [{ at, gone, come }];
  const edits: Edit[] = [];
  let place = at;
  let open: Edit | null = null;
  for (const { added, removed, value } of diffArrays(gone, come)) {
    if (!added && !removed) {
      place += value.length;
      open = null;
      continue;
    }
    if (!open) edits.push((open = { at: place, gone: [], come: [] }));
    if (added) open.come.push(...value);
    else {
      open.gone.push(...value);
      place += value.length;
    }
  }
  return edits;
}

/** A stretch of a prompt, compared with the earlier prompt. */
export type Stretch =
  | { kind: "same"; messages: number[] }
  | { kind: "changed"; before: number[]; after: number[] }
  | { kind: "added"; messages: number[] }
  | { kind: "removed"; messages: number[] };

/** The whole prompt of a call as stretches in order. */
export function stretches(prompts: Prompts, call: Call): Stretch[] {
  const stretches: Stretch[] = [];
  const isContinued = call.prompt.base !== null && call.prompt.relation !== "refers";
  const base = isContinued ? prompts.of(call.prompt.base ?? 0) : [];
  let place = 0;
  for (const { at, gone, come } of prompts.editsOf(call)) {
    if (at > place) stretches.push({ kind: "same", messages: base.slice(place, at) });
    if (gone.length && come.length) stretches.push({ kind: "changed", before: gone, after: come });
    else if (come.length) stretches.push({ kind: "added", messages: come });
    else if (gone.length) stretches.push({ kind: "removed", messages: gone });
    place = at + gone.length;
  }
  if (place < base.length) stretches.push({ kind: "same", messages: base.slice(place) });
  return stretches;
}

export interface PromptCounts {
  same: number;
  added: number;
  removed: number;
  changed: number;
}

/** The numbers of messages that are the same, added, removed and changed, for one line about a prompt. */
export function promptCounts(prompts: Prompts, call: Call): PromptCounts {
  const counts = { same: 0, added: 0, removed: 0, changed: 0 };
  for (const { gone, come } of prompts.editsOf(call)) {
    const both = Math.min(gone.length, come.length);
    counts.changed += both;
    counts.removed += gone.length - both;
    counts.added += come.length - both;
  }
  counts.same = Math.max(0, call.prompt.count - counts.added - counts.changed);
  return counts;
}

/** The numbers of the messages of this prompt that the earlier prompt did not have. */
export function insertedMessages(prompts: Prompts, call: Call): number[] {
  return prompts.editsOf(call).flatMap(({ come }) => come);
}

export interface Difference<T> {
  name: string;
  before: T | undefined;
  after: T | undefined;
}

/** The differences between the tools of two calls, by name. */
export function toolDifferences(outline: Outline, before: Call | undefined, call: Call): Difference<Tool>[] {
  if (!before || before.tool_list === call.tool_list) return [];
  const byName = (number: number | null) =>
    new Map((number === null ? [] : (outline.tool_lists[number] ?? [])).map((tool) => [tool.name, tool]));
  return differences(byName(before.tool_list), byName(call.tool_list));
}

/** The differences between the parameters of two calls, by member. */
export function parameterDifferences(outline: Outline, before: Call | undefined, call: Call): Difference<unknown>[] {
  if (!before || before.parameters === call.parameters) return [];
  const members = (number: number | null) =>
    new Map(Object.entries(number === null ? {} : (outline.parameters[number] ?? {})));
  return differences(members(before.parameters), members(call.parameters));
}

function differences<T>(before: Map<string, T>, after: Map<string, T>): Difference<T>[] {
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names
    .map((name) => ({ name, before: before.get(name), after: after.get(name) }))
    .filter((one) => jsonText(one.before) !== jsonText(one.after));
}
