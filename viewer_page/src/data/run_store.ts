/**
 * One open run: its outline, and the messages, answers and steps that were loaded so far.
 *
 * Views ask with `message(n)`, `answer(n)` and `step(n)`. A missing value is undefined at first. It is loaded together with all others
 * of the same moment, and then the views are rendered again.
 */
import { signal, type Signal } from "@preact/signals";
import type { Source } from "./source";
import type { Answer, Changes, Message, Outline, StepDetail } from "./types";

const BLOCK = 20;
const MOST_MESSAGES = 200;
const FOLLOW_SECONDS = 20;
const PAUSE_MS = 3000;

export class RunStore {
  readonly outline: Signal<Outline | null> = signal(null);
  readonly error: Signal<string | null> = signal(null);
  readonly offline: Signal<boolean> = signal(false);
  private readonly messages: Loaded<Message>;
  private readonly answers: Loaded<Answer>;
  private readonly steps: Loaded<StepDetail>;
  private readonly ending = new AbortController();

  constructor(
    readonly source: Source,
    readonly id: string,
  ) {
    this.messages = new Loaded((numbers) => inPortions(numbers, (some) => source.messages(id, some)));
    this.answers = new Loaded((numbers) => inBlocks(numbers, (from, to) => source.answers(id, from, to)));
    this.steps = new Loaded((numbers) => inBlocks(numbers, (from, to) => source.steps(id, from, to)));
  }

  message(number: number): Message | undefined {
    return this.messages.get(number);
  }

  answer(number: number): Answer | undefined {
    return this.answers.get(number);
  }

  step(number: number): StepDetail | undefined {
    return this.steps.get(number);
  }

  /** Load a cut value whole. */
  async wholeMessage(number: number): Promise<void> {
    this.messages.put(await this.source.message(this.id, number));
  }

  async wholeAnswer(number: number): Promise<void> {
    this.answers.put(await this.source.answer(this.id, number));
  }

  async wholeStep(number: number): Promise<void> {
    this.steps.put(await this.source.step(this.id, number));
  }

  allMessages(numbers: number[]): Promise<Message[]> {
    return this.messages.all(numbers);
  }

  allAnswers(numbers: number[]): Promise<Answer[]> {
    return this.answers.all(numbers);
  }

  allSteps(numbers: number[]): Promise<StepDetail[]> {
    return this.steps.all(numbers);
  }

  /** Load the outline, and follow the run for as long as it is being written. */
  async open(): Promise<void> {
    try {
      this.outline.value = await this.source.outline(this.id);
    } catch (failure) {
      this.error.value = failure instanceof Error ? failure.message : String(failure);
      return;
    }
    if (this.source.live) await this.follow();
  }

  close(): void {
    this.ending.abort();
  }

  apply(changes: Changes): void {
    const before = this.outline.value;
    if (!before || changes.reset) {
      if (changes.reset) this.forget();
      this.outline.value = { ...changes, id: this.id };
      return;
    }
    if (changes.version === before.version) return;
    for (const { number } of changes.interactions) this.answers.drop(number);
    for (const { number } of changes.steps) this.steps.drop(number);
    this.outline.value = {
      ...before,
      version: changes.version,
      writable: changes.writable,
      run: changes.run,
      counts: changes.counts,
      agents: changes.agents,
      tool_lists: [...before.tool_lists, ...changes.tool_lists],
      parameters: [...before.parameters, ...changes.parameters],
      interactions: replaced(before.interactions, changes.interactions, changes.counts.interactions),
      steps: replaced(before.steps, changes.steps, changes.counts.steps),
    };
  }

  private forget(): void {
    this.messages.clear();
    this.answers.clear();
    this.steps.clear();
  }

  private async follow(): Promise<void> {
    while (!this.ending.signal.aborted) {
      const version = this.outline.value?.version ?? "";
      // A browser opens few connections to one server, for all tabs together. A waiting request occupies one of them.
      const waits = this.outline.value?.run.status === "running" && !document.hidden;
      try {
        this.apply(await this.source.since(this.id, version, waits ? FOLLOW_SECONDS : 0, this.ending.signal));
        this.offline.value = false;
      } catch {
        if (this.ending.signal.aborted) return;
        this.offline.value = true;
      }
      if (!waits || this.offline.value) await new Promise((wake) => setTimeout(wake, PAUSE_MS));
    }
  }
}

function replaced<T extends { number: number }>(old: T[], changed: T[], count: number): T[] {
  const list = old.slice(0, count);
  for (const one of changed) list[one.number - 1] = one;
  return list;
}

async function inPortions<T>(numbers: number[], load: (some: number[]) => Promise<T[]>): Promise<T[]> {
  const elements: T[] = [];
  for (let at = 0; at < numbers.length; at += MOST_MESSAGES) elements.push(...(await load(numbers.slice(at, at + MOST_MESSAGES))));
  return elements;
}

/** Load whole blocks, because the neighbours of a value are shown soon. */
async function inBlocks<T>(numbers: number[], load: (from: number, to: number) => Promise<T[]>): Promise<T[]> {
  const blocks = [...new Set(numbers.map((number) => Math.floor((number - 1) / BLOCK)))].sort((a, b) => a - b);
  const loaded = await Promise.all(blocks.map((block) => load(block * BLOCK + 1, (block + 1) * BLOCK)));
  return loaded.flat();
}

/** Loaded values by number. A component that reads here is rendered again when more values come. */
class Loaded<T extends { number: number }> {
  private readonly known = new Map<number, T>();
  private readonly asked = new Set<number>();
  private wanted = new Set<number>();
  private readonly turn = signal(0);

  constructor(private readonly load: (numbers: number[]) => Promise<T[]>) {}

  get(number: number): T | undefined {
    void this.turn.value;
    const known = this.known.get(number);
    if (known) return known;
    if (!this.asked.has(number) && !this.wanted.has(number)) {
      if (this.wanted.size === 0) setTimeout(() => void this.fetch(), 0);
      this.wanted.add(number);
    }
    return undefined;
  }

  async all(numbers: number[]): Promise<T[]> {
    const missing = numbers.filter((number) => !this.known.has(number));
    if (missing.length > 0) for (const one of await this.load(missing)) if (!this.known.has(one.number)) this.known.set(one.number, one);
    return numbers.flatMap((number) => this.known.get(number) ?? []);
  }

  put(one: T): void {
    this.known.set(one.number, one);
    this.turn.value += 1;
  }

  drop(number: number): void {
    this.known.delete(number);
    this.asked.delete(number);
    this.turn.value += 1;
  }

  clear(): void {
    this.known.clear();
    this.asked.clear();
    this.turn.value += 1;
  }

  private async fetch(): Promise<void> {
    const numbers = [...this.wanted].sort((a, b) => a - b);
    this.wanted = new Set();
    for (const number of numbers) this.asked.add(number);
    try {
      for (const one of await this.load(numbers)) this.known.set(one.number, one);
    } catch {
      for (const number of numbers) this.asked.delete(number);
      await new Promise((wake) => setTimeout(wake, 1000));
    }
    this.turn.value += 1;
  }
}
