/** The filters of the list of runs. */
import { useMemo } from "preact/hooks";
import { visible } from "../content/visible";
import type { RunSummary } from "../data/types";
import { type Filters, NO_FILTERS, statusesOf } from "./filters";

interface Props {
  filters: Filters;
  setFilters: (filters: Filters) => void;
  runs: RunSummary[];
}

export function FilterBar({ filters, setFilters, runs }: Props) {
  const models = useMemo(() => counted(runs.map((run) => run.model ?? "")), [runs]);
  const statuses = useMemo(() => counted(runs.flatMap(statusesOf)), [runs]);
  const put = (some: Partial<Filters>) => setFilters({ ...filters, ...some });
  const isFiltered = JSON.stringify(filters) !== JSON.stringify(NO_FILTERS);
  return (
    <search class="filters">
      <input
        id="filter-text"
        type="search"
        aria-label="Filter by task, file or model"
        placeholder="Task, file or model  /"
        value={filters.text}
        onInput={(event) => put({ text: event.currentTarget.value })}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
      <select aria-label="Status" value={filters.status} onChange={(event) => put({ status: event.currentTarget.value })}>
        <option value="">Any status</option>
        {statuses.map(([status, many]) => (
          <option key={status} value={status}>
            {status} ({many})
          </option>
        ))}
      </select>
      <select aria-label="Model" value={filters.model} onChange={(event) => put({ model: event.currentTarget.value })}>
        <option value="">Any model</option>
        {models.filter(([model]) => model).map(([model, many]) => (
          <option key={model} value={model}>
            {visible(model)} ({many})
          </option>
        ))}
      </select>
      <label>
        From <input type="date" value={filters.from} onInput={(event) => put({ from: event.currentTarget.value })} />
      </label>
      <label>
        To <input type="date" value={filters.to} onInput={(event) => put({ to: event.currentTarget.value })} />
      </label>
      <label>
        Cost from $
        <input
          type="number"
          min="0"
          step="any"
          class="narrow"
          value={filters.minimumCost}
          onInput={(event) => put({ minimumCost: event.currentTarget.value })}
        />
      </label>
      <label>
        <input type="checkbox" checked={filters.errors} onChange={(event) => put({ errors: event.currentTarget.checked })} /> With errors
      </label>
      {isFiltered && (
        <button type="button" class="link" onClick={() => setFilters(NO_FILTERS)}>
          All runs
        </button>
      )}
    </search>
  );
}

/** Each word with how often it is there, the most frequent first. */
function counted(words: string[]): [string, number][] {
  const found = new Map<string, number>();
  for (const word of words) found.set(word, (found.get(word) ?? 0) + 1);
  return [...found].sort((a, b) => b[1] - a[1]);
}
