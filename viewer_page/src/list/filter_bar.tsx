/** The filters of the list of runs. */
import { visible } from "../content/visible";
import type { ChangedList } from "../data/types";
import { count } from "../ui/format";
import { type Filters, NO_FILTERS } from "./filters";

interface Props {
  filters: Filters;
  setFilters: (filters: Filters) => void;
  list: ChangedList | null;
}

export function FilterBar({ filters, setFilters, list }: Props) {
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
        {list?.statuses.map(([status, runs]) => (
          <option key={status} value={status}>
            {status} ({count(runs)})
          </option>
        ))}
      </select>
      <select aria-label="Model" value={filters.model} onChange={(event) => put({ model: event.currentTarget.value })}>
        <option value="">Any model</option>
        {list?.models.map(([model, runs]) => (
          <option key={model} value={model}>
            {visible(model)} ({count(runs)})
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
