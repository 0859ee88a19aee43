/** The sources of data: the server, or the run inside the self-contained file. */
import { PackedData } from "./packed";
import type {
  Answer, Changes, Comparison, FileData, Groups, Item, ListRange, Message, Outline, PageData, PairDifferences, Ranges, Raw, RunData, RunList, RunTable,
  StepDetail,
} from "./types";

export class RefusedError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export interface Source {
  /** Whether the source has a list of runs, and runs can change. */
  readonly live: boolean;
  /** Rows of the list with these filters. */
  runs(filters: string, range: ListRange): Promise<RunList>;
  outline(run: string): Promise<Outline>;
  since(run: string, version: string, wait: number, signal: AbortSignal): Promise<Changes>;
  messages(run: string, numbers: number[]): Promise<Message[]>;
  message(run: string, number: number): Promise<Message>;
  answers(run: string, from: number, to: number): Promise<Answer[]>;
  answer(run: string, number: number): Promise<Answer>;
  steps(run: string, from: number, to: number): Promise<StepDetail[]>;
  step(run: string, number: number): Promise<StepDetail>;
  raw(run: string, number: number): Promise<Raw>;
  items(run: string, from: number, to: number): Promise<Item[]>;
  add(run: string, what: "rewards" | "annotations", body: object): Promise<Changes>;
  compare(a: string, b: string): Promise<Comparison>;
  /** Only a server has several runs. */
  table?(runs: string[]): Promise<RunTable>;
  /** Groups of the runs that match these filters. Only a server has them. */
  groups?(filters: string, by: string[]): Promise<Groups>;
  differences(a: string, b: string, pair: number): Promise<PairDifferences>;
  /** The address of the self-contained file of a run. Only a server has it. */
  saveAddress?(run: string): string;
}

/** The server that serves this page. */
class Server implements Source {
  readonly live = true;

  private async ask<T>(path: string, init?: RequestInit): Promise<T> {
    const answer = await fetch(`api/${path}`, init);
    const text = await answer.text();
    if (!answer.ok) throw new RefusedError(answer.status, refusal(text) ?? `The server answered ${answer.status}.`);
    return JSON.parse(text) as T;
  }

  private at(run: string): string {
    return `runs/${encodeURIComponent(run)}`;
  }

  runs(filters: string, { from, to, ...version }: ListRange) {
    const range = new URLSearchParams({ ...version, from: String(from), to: String(to) });
    return this.ask<RunList>(`runs?${range}${filters && `&${filters}`}`);
  }

  table(runs: string[]) {
    return this.ask<RunTable>(`table?${runs.map((run) => `run=${encodeURIComponent(run)}`).join("&")}`);
  }

  groups(filters: string, by: string[]) {
    const groupings = new URLSearchParams(by.map((one) => ["by", one]));
    return this.ask<Groups>(`groups?${groupings}${filters && `&${filters}`}`);
  }

  saveAddress(run: string) {
    return `api/${this.at(run)}/file`;
  }

  outline(run: string) {
    return this.ask<Outline>(this.at(run));
  }

  since(run: string, version: string, wait: number, signal: AbortSignal) {
    return this.ask<Changes>(`${this.at(run)}/since?version=${encodeURIComponent(version)}&wait=${wait}`, { signal });
  }

  async messages(run: string, numbers: number[]) {
    const [first, last] = [numbers[0] ?? 0, numbers.at(-1) ?? 0];
    const query = last - first + 1 === numbers.length ? `from=${first}&to=${last}` : `numbers=${numbers.join(",")}`;
    return (await this.ask<{ messages: Message[] }>(`${this.at(run)}/messages?${query}`)).messages;
  }

  message(run: string, number: number) {
    return this.ask<Message | { message: Message }>(`${this.at(run)}/messages/${number}`).then((one) =>
      "message" in one ? one.message : one,
    );
  }

  async answers(run: string, from: number, to: number) {
    const path = `${this.at(run)}/interactions?from=${from}&to=${to}`;
    return (await this.ask<{ interactions: Answer[] }>(path)).interactions;
  }

  answer(run: string, number: number) {
    return this.ask<Answer>(`${this.at(run)}/interactions/${number}`);
  }

  async steps(run: string, from: number, to: number) {
    return (await this.ask<{ steps: StepDetail[] }>(`${this.at(run)}/steps?from=${from}&to=${to}`)).steps;
  }

  step(run: string, number: number) {
    return this.ask<StepDetail>(`${this.at(run)}/steps/${number}`);
  }

  raw(run: string, number: number) {
    return this.ask<Raw>(`${this.at(run)}/interactions/${number}/raw`);
  }

  async items(run: string, from: number, to: number) {
    return (await this.ask<{ items: Item[] }>(`${this.at(run)}/items?from=${from}&to=${to}`)).items;
  }

  add(run: string, what: "rewards" | "annotations", body: object) {
    const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    return this.ask<Changes>(`${this.at(run)}/${what}`, init);
  }

  compare(a: string, b: string) {
    return this.ask<Comparison>(`compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
  }

  differences(a: string, b: string, pair: number) {
    return this.ask<PairDifferences>(`compare/pairs/${pair}?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
  }
}

function refusal(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { error?: string }).error;
  } catch {
    return undefined;
  }
}

/** The runs inside this page. Lists are dense: a number is a place, counted from `first`. */
class OneFile implements Source {
  readonly live = false;
  private readonly runsById: Map<string, PackedData>;
  private readonly messagesById: Map<string, Promise<Map<number, Message>>> = new Map();

  constructor(
    files: FileData[],
    private readonly compared: PackedData | null = null,
  ) {
    this.runsById = new Map(files.map((file) => [file.id, new PackedData(file.sections)]));
  }

  private async section<Name extends keyof RunData>(run: string, name: Name): Promise<RunData[Name]> {
    const file = this.runsById.get(run);
    if (!file) throw new RefusedError(404, `${run} is not in this file.`);
    return file.section<RunData[Name]>(name);
  }

  async runs(): Promise<RunList> {
    throw new RefusedError(404, "This file has no list of runs.");
  }

  async outline(run: string) {
    return this.section(run, "run");
  }

  async since(): Promise<Changes> {
    throw new RefusedError(404, "A run in a file does not change.");
  }

  async messages(run: string, numbers: number[]) {
    const known = this.messagesById.get(run) ?? this.section(run, "messages").then((all) => new Map(all.map((one) => [one.number, one])));
    this.messagesById.set(run, known);
    const messages = await known;
    return numbers.flatMap((number) => messages.get(number) ?? []);
  }

  async message(run: string, number: number) {
    return found((await this.messages(run, [number]))[0]);
  }

  async answers(run: string, from: number, to: number) {
    return between(await this.section(run, "interactions"), from, to);
  }

  async answer(run: string, number: number) {
    return found((await this.answers(run, number, number))[0]);
  }

  async steps(run: string, from: number, to: number) {
    return between(await this.section(run, "steps"), from, to);
  }

  async step(run: string, number: number) {
    return found((await this.steps(run, number, number))[0]);
  }

  async raw(run: string, number: number) {
    return found((await this.section(run, "raw"))[String(number)]);
  }

  async items(run: string, from: number, to: number) {
    return between(await this.section(run, "items"), from, to);
  }

  async add(): Promise<Changes> {
    throw new RefusedError(409, "This file is a copy. Add rewards to the run itself.");
  }

  async compare() {
    return found(await this.compared?.section<Comparison>("compare"));
  }

  async differences(_a: string, _b: string, pair: number) {
    return found((await this.compared?.section<PairDifferences[]>("pairs"))?.find((one) => one.pair === pair));
  }
}

function between<T extends { number: number }>(list: T[], from: number, to: number): T[] {
  return list.filter((one) => one.number >= from && one.number <= to);
}

function found<T>(one: T | undefined): T {
  if (one === undefined) throw new RefusedError(404, "This is not in the file.");
  return one;
}

export function pageData(): PageData {
  const text = document.getElementById("trace-recorder-data")?.textContent ?? "null";
  return (JSON.parse(text) as PageData | null) ?? { kind: "server", run: null, writable: false };
}

export function sourceOf(data: Exclude<PageData, { kind: "refused" }>): Source {
  if (data.kind === "file") return new OneFile([data]);
  if (data.kind === "comparison") return new OneFile([data.a, data.b], new PackedData(data.sections));
  return new Server();
}

/** The numbers of some ranges in their order. */
export function* numbersIn(ranges: Ranges): Generator<number> {
  for (const [first, last] of ranges) for (let number = first; number <= last; number += 1) yield number;
}
