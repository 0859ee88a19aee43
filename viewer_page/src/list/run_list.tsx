/** The runs of a directory: filtered, sorted, live; two of them can be chosen to stand side by side. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { visible } from "../content/visible";
import { go, hashOf, query, setQuery } from "../data/route";
import type { Source } from "../data/source";
import type { RunSummary } from "../data/types";
import { StatusBadge } from "../ui/elements";
import { ForkedFrom, ReplayOf } from "../ui/relations";
import { ago, costNote, costText, count, dateTime, duration, firstLine, plural, short } from "../ui/format";
import { useShortcuts } from "../ui/shortcuts";
import { useVirtualizer } from "../ui/use_virtualizer";
import { FilterBar } from "./filter_bar";
import { type Column, errorsOf, type Filters, filtersAsQuery, filtersIn, listed, type Order, orderAsQuery, orderIn } from "./filters";
import { RunSearchBar, useRunSearch } from "./run_search";
import type { RunsStore } from "./runs_store";

/** How many runs one table has at most. */
const MOST_MARKED = 10;

const COLUMNS: [Column, string, boolean][] = [
  ["status", "Status", false],
  ["task", "Task", false],
  ["model", "Model", false],
  ["start_time", "Started", true],
  ["execution_time_seconds", "Time", true],
  ["steps", "Steps", true],
  ["errors", "Errors", true],
  ["tokens", "Tokens", true],
  ["cost", "Cost", true],
  ["rewards", "Rewards", false],
];

export function RunListView({ store, source }: { store: RunsStore; source: Source }) {
  const runs = store.runs.value;
  const filters = useMemo(() => filtersIn(query.value), [query.value]);
  const order = useMemo(() => orderIn(query.value), [query.value]);
  const setFilters = (changed: Filters) => setQuery(filtersAsQuery(changed));
  const setOrder = (changed: Order) => setQuery(orderAsQuery(changed));
  const [chosen, setChosen] = useState<string | null>(null);
  const [marked, setMarked] = useState<string[]>([]);
  const search = useRunSearch(source, query.value.get("q") ?? "");
  const searched = useMemo(() => (search.found ? (runs ?? []).filter((run) => search.found?.has(run.id)) : (runs ?? [])), [runs, search.found]);
  const shown = useMemo(() => listed(searched, filters, order), [searched, filters, order]);
  const identities = useMemo(() => new Map((runs ?? []).map((run) => [run.trajectory_id, run.id])), [runs]);
  useEffect(() => {
    void store.open();
    return () => store.close();
  }, [store]);
  const mark = (id: string) => setMarked(marked.includes(id) ? marked.filter((one) => one !== id) : [...marked.slice(1 - MOST_MARKED), id]);
  const compare = () => {
    const [a, b] = marked.slice(-2);
    if (a && b) go({ page: "compare", a, b });
  };
  useListKeys(shown, chosen, setChosen, mark, compare);
  return (
    <main class="list-page">
      <div class="list-head">
        <h1>Runs</h1>
        <span class="muted" aria-live="polite">
          {runs ? `${count(shown.length)}${shown.length < runs.length ? ` of ${count(runs.length)}` : ""} in ${visible(store.directory.value)}` : ""}
        </span>
        {store.withoutCosts.value > 0 && <span class="muted">reading what {plural(store.withoutCosts.value, "run")} cost…</span>}
        <span class="spacer" />
        <button type="button" disabled={marked.length !== 2} onClick={compare} title="Mark two runs with their boxes, or with x">
          Compare {marked.length > 0 ? `(${marked.length} of 2)` : ""}
        </button>
        <button
          type="button"
          disabled={marked.length < 2}
          onClick={() => go({ page: "table", runs: marked })}
          title={`Mark two to ${MOST_MARKED} runs: one table, aligned by step`}
        >
          Table
        </button>
      </div>
      <RunSearchBar search={search} />
      <FilterBar filters={filters} setFilters={setFilters} runs={runs ?? []} />
      {store.error.value && <p class="warn">{store.error.value}</p>}
      {runs === null ? (
        <p class="empty muted">Loading…</p>
      ) : (
        <Table {...{ shown, identities, order, setOrder, chosen, marked, mark }} prices={store.prices.value} />
      )}
      <Unreadable store={store} />
    </main>
  );
}

function useListKeys(
  shown: RunSummary[],
  chosen: string | null,
  choose: (id: string) => void,
  mark: (id: string) => void,
  compare: () => void,
): void {
  const move = (by: number) => {
    const at = shown.findIndex((run) => run.id === chosen);
    const next = shown[Math.max(0, Math.min(shown.length - 1, at + by))];
    if (next) choose(next.id);
  };
  useShortcuts([
    { keys: ["j", "ArrowDown"], label: "next run", run: () => move(1) },
    { keys: ["k", "ArrowUp"], label: "previous run", run: () => move(-1) },
    { keys: ["Enter", "o"], label: "open the run", run: () => chosen && go({ page: "run", run: chosen }) },
    { keys: ["x"], label: "mark the run for comparing", run: () => chosen && mark(chosen) },
    { keys: ["c"], label: "compare the two marked runs", run: compare },
    { keys: ["/"], label: "filter", run: () => document.getElementById("filter-text")?.focus() },
  ]);
}

interface TableProps {
  shown: RunSummary[];
  /** The ids of all runs, by those of their trajectories. */
  identities: Map<string | null, string>;
  order: Order;
  setOrder: (order: Order) => void;
  chosen: string | null;
  marked: string[];
  mark: (id: string) => void;
  /** The table of prices that estimates are from. */
  prices: string | null;
}

function Table({ shown, identities, order, setOrder, chosen, marked, mark, prices }: TableProps) {
  const costsTitle = prices
    ? `≈ is an estimate with ${prices}; other costs are those that providers stated`
    : "Costs that providers stated. Others are estimated if the extra is installed: pip install 'trace-recorder[prices]'";
  const scroller = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 37,
    getItemKey: (index) => shown[index]?.id ?? index,
    overscan: 12,
  });
  useEffect(() => {
    const index = shown.findIndex((run) => run.id === chosen);
    if (index >= 0) list.scrollToIndex(index, { align: "auto" });
  }, [chosen]);
  return (
    <div class="runs" role="table" aria-label="Runs" aria-rowcount={shown.length + 1}>
      <div role="rowgroup" class="runs-head">
        <div role="row" class="run-row">
          <span role="columnheader" class="mark">
            <span class="offscreen">Marked for comparing</span>
          </span>
          {COLUMNS.map(([column, name, figure]) => (
            <span
              key={column}
              role="columnheader"
              class={`${column} ${figure ? "figure" : ""}`}
              aria-sort={order.column === column ? (order.descending ? "descending" : "ascending") : "none"}
            >
              <button
                type="button"
                class="sort"
                title={column === "cost" ? costsTitle : undefined}
                onClick={() => setOrder({ column, descending: order.column === column ? !order.descending : figure })}
              >
                {name}
                <span aria-hidden="true">{order.column === column ? (order.descending ? " ↓" : " ↑") : ""}</span>
              </button>
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" class="runs-scroll" ref={scroller} tabIndex={0} aria-label="Runs, scrolled">
        <div class="rows" role="presentation" style={{ height: `${list.getTotalSize()}px` }}>
          {list.getVirtualItems().map((item) => {
            const run = shown[item.index];
            return run ? (
              <RunRow
                key={item.key}
                run={run}
                parent={identities.get((run.forked_from ?? run.replay_of)?.trajectory_id ?? "")}
                index={item.index}
                start={item.start}
                measure={(element) => list.measureElement(element)}
                chosen={run.id === chosen}
                marked={marked.includes(run.id)}
                mark={() => mark(run.id)}
              />
            ) : null;
          })}
        </div>
        {shown.length === 0 && (
          <p class="empty muted">{identities.size === 0 ? "There are no runs here yet. A run appears when its recording begins." : "No run matches."}</p>
        )}
      </div>
    </div>
  );
}

interface RowProps {
  run: RunSummary;
  /** The id of the run that it continues or repeats, if that is in the list. */
  parent: string | undefined;
  index: number;
  start: number;
  measure: (element: HTMLElement | null) => void;
  chosen: boolean;
  marked: boolean;
  mark: () => void;
}

function RunRow({ run, parent, index, start, measure, chosen, marked, mark }: RowProps) {
  const failures = errorsOf(run);
  const to = { page: "run" as const, run: run.id };
  const costs = { dollars: run.cost, estimated: run.cost_estimated === true, withoutPrice: run.calls_without_price ?? 0 };
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      class={`run-row row-place ${chosen ? "selected" : ""}`}
      data-index={index}
      ref={measure}
      style={{ transform: `translateY(${start}px)` }}
      onClick={(event) => !(event.target as Element).closest("a, input") && go(to)}
    >
      <span role="cell" class="mark">
        <input type="checkbox" checked={marked} aria-label={`Mark ${run.id} for comparing`} onChange={mark} />
      </span>
      <span role="cell" class="status-cell">
        <StatusBadge status={run.status} success={run.success} />
      </span>
      <span role="cell" class="task">
        <a href={hashOf(to)} title={visible(run.task ?? run.id)}>
          {visible(firstLine(run.task ?? run.id, 200))}
        </a>
        {run.forked_from && <ForkedFrom origin={run.forked_from} run={parent} />}
        {run.replay_of && <ReplayOf origin={run.replay_of} run={parent} />}
      </span>
      <span role="cell" class="model" title={visible(run.provider ?? "")}>
        {visible(run.model ?? "")}
      </span>
      <span role="cell" class="start_time figure" title={dateTime(run.start_time)}>
        {ago(run.start_time ?? run.modified, Date.now())}
      </span>
      <span role="cell" class="execution_time_seconds figure">{duration(run.execution_time_seconds)}</span>
      <span role="cell" class="steps figure">{count(run.steps)}</span>
      <span role="cell" class={`errors figure ${failures > 0 ? "bad-text" : ""}`}>{failures > 0 ? count(failures) : ""}</span>
      <span role="cell" class="tokens figure" title={`${count(run.total_input_tokens)} in, ${count(run.output_tokens)} out`}>
        {run.total_input_tokens === null ? "" : `${short(run.total_input_tokens)} → ${short(run.output_tokens)}`}
      </span>
      <span role="cell" class="cost figure" title={costNote(costs)}>
        {costText(costs)}
      </span>
      <span role="cell" class="rewards-cell">
        {Object.entries(run.rewards ?? {})
          .map(([name, value]) => `${visible(name)} ${value}`)
          .join(", ")}
      </span>
    </div>
  );
}

function Unreadable({ store }: { store: RunsStore }) {
  const files = store.unreadable.value;
  if (files.length === 0) return null;
  return (
    <details class="unreadable">
      <summary>{count(files.length)} other files are no runs</summary>
      <ul>
        {files.map((one) => (
          <li key={one.id}>{visible(one.error)}</li>
        ))}
      </ul>
    </details>
  );
}
