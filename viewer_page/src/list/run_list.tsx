/** The runs of a directory: filtered, sorted and live. Marked runs can be compared. */
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { visible } from "../content/visible";
import { go, query, setQuery } from "../data/route";
import type { Source } from "../data/source";
import type { ChangedList } from "../data/types";
import { count, plural } from "../ui/format";
import { useShortcuts } from "../ui/shortcuts";
import { FilterBar } from "./filter_bar";
import { type Filters, filtersAsQuery, filtersIn, type Order, orderAsQuery, orderIn, parametersOf } from "./filters";
import { RunGroups } from "./run_groups";
import { RunSearchBar, useSettled } from "./run_search";
import { type ChosenRun, RunTable } from "./run_table";
import type { RunsStore } from "./runs_store";

/** The largest number of runs in a table. */
const MOST_MARKED = 10;

export function RunListView({ store, source }: { store: RunsStore; source: Source }) {
  const list = store.list.value;
  const filters = useMemo(() => filtersIn(query.value), [query.value]);
  const order = useMemo(() => orderIn(query.value), [query.value]);
  const search = query.value.get("q") ?? "";
  const parameters = parametersOf(filters, order, useSettled(search));
  const setFilters = (changed: Filters) => setQuery(filtersAsQuery(changed));
  const setOrder = (changed: Order) => setQuery(orderAsQuery(changed));
  const chosen = useSignal<ChosenRun | null>(null);
  const [marked, setMarked] = useState<string[]>([]);
  useEffect(() => store.show(parameters), [store, parameters]);
  useEffect(() => {
    void store.open();
    return () => store.close();
  }, [store]);
  const mark = (id: string) => setMarked(marked.includes(id) ? marked.filter((other) => other !== id) : [...marked.slice(1 - MOST_MARKED), id]);
  const compare = () => {
    const [a, b] = marked.slice(-2);
    if (a && b) go({ page: "compare", a, b });
  };
  useListKeys(store, chosen, mark, compare);
  return (
    <main class="list-page">
      <div class="list-head">
        <h1>Runs</h1>
        <span class="muted" aria-live="polite">
          {list && `${count(list.count)}${list.count < list.total ? ` of ${count(list.total)}` : ""} in ${visible(list.directory)}`}
        </span>
        <span class="muted">{list && stillToRead(list)}</span>
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
      <RunSearchBar store={store} query={search} />
      <FilterBar filters={filters} setFilters={setFilters} list={list} />
      {list && <RunGroups source={source} parameters={parameters} />}
      {store.error.value && <p class="warn">{store.error.value}</p>}
      {list ? <RunTable {...{ store, parameters, order, setOrder, chosen: chosen.value, marked, mark }} /> : <p class="empty muted">Loading…</p>}
      {list && <Unreadable list={list} />}
    </main>
  );
}

function stillToRead({ unread, without_costs: withoutCosts }: ChangedList): string {
  if (unread > 0) return `reading ${plural(unread, "more run")}…`;
  return withoutCosts > 0 ? `reading what ${plural(withoutCosts, "run")} cost…` : "";
}

function useListKeys(
  store: RunsStore,
  chosen: Signal<ChosenRun | null>,
  mark: (id: string) => void,
  compare: () => void,
): void {
  const move = (by: number) => {
    const rows = store.rows.value;
    const { id, place: before } = chosen.value ?? { id: "", place: -1 };
    const now = [...rows.keys()].find((key) => rows.get(key)?.id === id) ?? before;
    const place = Math.max(0, Math.min((store.list.value?.count ?? 0) - 1, now + by));
    const run = rows.get(place);
    if (run) chosen.value = { id: run.id, place };
  };
  useShortcuts([
    { keys: ["j", "ArrowDown"], label: "next run", run: () => move(1) },
    { keys: ["k", "ArrowUp"], label: "previous run", run: () => move(-1) },
    { keys: ["Enter", "o"], label: "open the run", run: () => chosen.value && go({ page: "run", run: chosen.value.id }) },
    { keys: ["x"], label: "mark the run for comparing", run: () => chosen.value && mark(chosen.value.id) },
    { keys: ["c"], label: "compare the two marked runs", run: compare },
    { keys: ["/"], label: "filter", run: () => document.getElementById("filter-text")?.focus() },
  ]);
}

function Unreadable({ list: { unreadable, unreadable_count: total } }: { list: ChangedList }) {
  if (total === 0) return null;
  return (
    <details class="unreadable">
      <summary>{total === 1 ? "1 other file is no run" : `${count(total)} other files are no runs`}</summary>
      <ul>
        {unreadable.map((file) => (
          <li key={file.id}>{visible(file.error)}</li>
        ))}
        {unreadable.length < total && <li>and {count(total - unreadable.length)} more</li>}
      </ul>
    </details>
  );
}
