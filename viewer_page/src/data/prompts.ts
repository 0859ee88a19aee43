/** The prompt of a call as a list of message numbers, and what it changes in the one that it continues. */
import { numbersIn } from "./source";
import type { Call, Outline, Tool } from "./types";

const REMEMBERED = 40;

/** Message numbers of prompts. Remembers the last few: a prompt is made from the one that it continues. */
export class Prompts {
  private readonly known = new Map<number, number[]>();

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

/** A stretch of a prompt against the one before. */
export type Stretch =
  | { kind: "same"; messages: number[] }
  | { kind: "changed"; before: number[]; after: number[] }
  | { kind: "added"; messages: number[] }
  | { kind: "removed"; messages: number[] };

/** The whole prompt of a call as stretches, in its order. */
export function stretches(call: Call, before: number[]): Stretch[] {
  const found: Stretch[] = [];
  const base = call.prompt.relation === "refers" ? [] : before;
  let at = 0;
  for (const [position, removed, inserted] of call.prompt.changes) {
    if (position > at) found.push({ kind: "same", messages: base.slice(at, position) });
    const gone = base.slice(position, position + removed);
    const come = [...numbersIn(inserted)];
    if (gone.length && come.length) found.push({ kind: "changed", before: gone, after: come });
    else if (come.length) found.push({ kind: "added", messages: come });
    else if (gone.length) found.push({ kind: "removed", messages: gone });
    at = position + removed;
  }
  if (at < base.length) found.push({ kind: "same", messages: base.slice(at) });
  return found;
}

export interface PromptCounts {
  same: number;
  added: number;
  removed: number;
  changed: number;
}

/** How many messages are the same, added, removed and changed: for one line about a prompt. */
export function promptCounts(call: Call): PromptCounts {
  const counts = { same: 0, added: 0, removed: 0, changed: 0 };
  for (const [, removed, inserted] of call.prompt.changes) {
    const come = inserted.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    const both = Math.min(removed, come);
    counts.changed += both;
    counts.removed += removed - both;
    counts.added += come - both;
  }
  counts.same = Math.max(0, call.prompt.count - counts.added - counts.changed);
  return counts;
}

/** The numbers of the messages that this prompt has and the one before had not. */
export function insertedMessages(call: Call): number[] {
  return call.prompt.changes.flatMap(([, , inserted]) => [...numbersIn(inserted)]);
}

export interface Difference<T> {
  name: string;
  before: T | undefined;
  after: T | undefined;
}

/** What differs between the tools of two calls, by name. */
export function toolDifferences(outline: Outline, before: Call | undefined, call: Call): Difference<Tool>[] {
  if (!before || before.tool_list === call.tool_list) return [];
  const byName = (number: number | null) =>
    new Map((number === null ? [] : (outline.tool_lists[number] ?? [])).map((tool) => [tool.name, tool]));
  return differences(byName(before.tool_list), byName(call.tool_list));
}

/** What differs between the parameters of two calls, by member. */
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
    .filter((one) => JSON.stringify(one.before) !== JSON.stringify(one.after));
}
