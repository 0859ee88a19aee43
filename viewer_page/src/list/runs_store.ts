/**
 * The list of runs, which the server filters, sorts and counts. The page has only the rows that were on the screen, by their
 * places. The server says when to ask again. There is one request at a time.
 */
import { signal } from "@preact/signals";
import { RefusedError, type Source } from "../data/source";
import type { ChangedList, RunList, RunSummary } from "../data/types";

const EVERY_SECONDS = 2;
/** The number of rows that are loaded before and after those on the screen. */
const AROUND = 50;

type Rows = ReadonlyMap<number, RunSummary | null>;

export class RunsStore {
  readonly list = signal<ChangedList | null>(null);
  /** The loaded rows, by their places in the list. */
  readonly rows = signal<Rows>(new Map());
  readonly error = signal<string | null>(null);
  /** The error of a search or a filter that is not valid. */
  readonly refusal = signal<string | null>(null);
  /** Whether the list of these filters is still to come. */
  readonly busy = signal(false);
  private parameters = "";
  private version: string | null = null;
  private seen: [first: number, last: number] = [0, 0];
  private isLoading = false;
  private turn = 0;
  private wake: () => void = () => undefined;

  constructor(private readonly source: Source) {}

  async open(): Promise<void> {
    this.turn += 1;
    for (const { turn } = this; turn === this.turn; ) {
      const seconds = document.hidden && this.list.value ? EVERY_SECONDS : await this.follow();
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, seconds * 1000);
      });
    }
  }

  close(): void {
    this.turn += 1;
    this.wake();
  }

  /** Show the runs of these filters in this order. */
  show(parameters: string): void {
    if (parameters === this.parameters) return;
    this.parameters = parameters;
    this.version = this.list.value ? "0" : null;
    this.busy.value = true;
    this.wake();
  }

  /** Load the rows at these places, if some are missing. */
  see(first: number, last: number): void {
    this.seen = [first, last];
    void this.load();
  }

  /** Ask for changes. Return the seconds until the next request. */
  private async follow(): Promise<number> {
    const asked = this.parameters;
    try {
      const list = await this.source.runs(asked, { since: this.version ?? "", ...this.range() });
      if (asked !== this.parameters) return 0;
      this.apply(list);
      this.error.value = this.refusal.value = null;
      this.busy.value = false;
      void this.load();
      return list.next_seconds;
    } catch (failure) {
      if (asked !== this.parameters) return 0;
      const isRefused = failure instanceof RefusedError && failure.status === 400;
      (isRefused ? this.refusal : this.error).value = failure instanceof Error ? failure.message : String(failure);
      this.busy.value = false;
      return EVERY_SECONDS;
    }
  }

  private async load(): Promise<void> {
    while (!this.isLoading && this.isMissing()) {
      const [asked, version] = [this.parameters, this.version];
      this.isLoading = true;
      try {
        const list = await this.source.runs(asked, { version: version ?? "", ...this.range() });
        if (asked === this.parameters && version === this.version) this.apply(list);
      } catch {
        return; // the next poll shows the error, and asks again
      } finally {
        this.isLoading = false;
      }
    }
  }

  private isMissing(): boolean {
    const list = this.list.value;
    if (!list || this.version !== list.version) return false;
    const [first, last] = this.seen;
    for (let place = first; place <= Math.min(last, list.count - 1); place += 1) if (!this.rows.value.has(place)) return true;
    return false;
  }

  private range(): { from: number; to: number } {
    return { from: Math.max(0, this.seen[0] - AROUND), to: this.seen[1] + AROUND };
  }

  private apply(list: RunList): void {
    const before = this.list.value;
    if (!list.changed) {
      if (before) this.list.value = { ...before, ...list, changed: true, runs: [] };
      return;
    }
    const rows = new Map(before && list.version === this.version ? this.rows.value : []);
    list.runs.forEach((run, index) => rows.set(list.from + index, run));
    this.version = list.version;
    this.rows.value = rows;
    this.list.value = list;
  }
}
