/** The list of runs, which follows its directory. */
import { signal } from "@preact/signals";
import type { Source } from "../data/source";
import type { RunList, RunSummary } from "../data/types";

const EVERY_MS = 2000;
const WITHOUT_COSTS_MS = 50;

export class RunsStore {
  readonly runs = signal<RunSummary[] | null>(null);
  readonly directory = signal("");
  readonly unreadable = signal<{ id: string; error: string }[]>([]);
  readonly error = signal<string | null>(null);
  /** How many runs have costs that are not known yet. */
  readonly withoutCosts = signal(0);
  /** The table of prices that estimates are from. */
  readonly prices = signal<string | null>(null);
  private version: string | undefined;
  private ended = false;

  constructor(private readonly source: Source) {}

  async open(): Promise<void> {
    this.ended = false;
    while (!this.ended) {
      try {
        if (!document.hidden || this.version === undefined) this.apply(await this.source.runs(this.version));
        this.error.value = null;
      } catch (failure) {
        this.error.value = failure instanceof Error ? failure.message : String(failure);
      }
      const isSoon = this.withoutCosts.value > 0 && this.error.value === null && !document.hidden;
      await new Promise((wake) => setTimeout(wake, isSoon ? WITHOUT_COSTS_MS : EVERY_MS));
    }
  }

  close(): void {
    this.ended = true;
  }

  private apply(list: RunList): void {
    const same = list.version === this.version;
    this.version = list.version;
    this.directory.value = list.directory;
    this.withoutCosts.value = list.without_costs;
    this.prices.value = list.prices;
    if (list.unreadable && (list.complete || !same)) this.unreadable.value = list.unreadable;
    if (list.complete) this.runs.value = list.runs;
    else if (list.runs.length > 0 || (list.removed?.length ?? 0) > 0) this.runs.value = this.merged(list);
  }

  private merged(list: RunList): RunSummary[] {
    const known = new Map((this.runs.value ?? []).map((run) => [run.id, run]));
    for (const id of list.removed ?? []) known.delete(id);
    for (const run of list.runs) known.set(run.id, run);
    return [...known.values()];
  }
}
