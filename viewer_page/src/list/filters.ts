/** The filters and the order of the list of runs, in the page's address and in requests. Pure functions. */
import type { RunSummary } from "../data/types";

export interface Filters {
  text: string;
  /** A status, or "success" and "failure" as the caller judged it. */
  status: string;
  model: string;
  from: string;
  to: string;
  errors: boolean;
  minimumCost: string;
}

export const NO_FILTERS: Filters = { text: "", status: "", model: "", from: "", to: "", errors: false, minimumCost: "" };

const COLUMNS = ["status", "task", "model", "time", "duration", "steps", "errors", "tokens", "cost", "rewards"] as const;

export type Column = (typeof COLUMNS)[number];

export interface Order {
  column: Column;
  descending: boolean;
}

export const NEWEST_FIRST: Order = { column: "time", descending: true };

/** Return the filters of an address. */
export function filtersIn(query: URLSearchParams): Filters {
  const text = (name: string) => query.get(name) ?? "";
  return {
    text: text("text"),
    status: text("status"),
    model: text("model"),
    from: text("from"),
    to: text("to"),
    errors: query.has("errors"),
    minimumCost: text("cost"),
  };
}

/** Return the members of an address for these filters. */
export function filtersAsQuery({ minimumCost, errors, ...others }: Filters): Record<string, string> {
  return { ...others, errors: errors ? "yes" : "", cost: minimumCost };
}

/** Return the order of an address: a column. A minus before it means descending. */
export function orderIn(query: URLSearchParams): Order {
  const sort = query.get("sort") ?? "";
  const column = COLUMNS.find((name) => name === sort.replace(/^-/, ""));
  return column ? { column, descending: sort.startsWith("-") } : NEWEST_FIRST;
}

export function orderAsQuery({ column, descending }: Order): Record<string, string> {
  return { sort: column === "time" && descending ? "" : `${descending ? "-" : ""}${column}` };
}

/** Return the parameters of a request. A date is a day in the reader's zone. */
export function parametersOf(filters: Filters, order: Order, query: string): string {
  const parameters = {
    ...orderAsQuery(order),
    text: filters.text.trim(),
    status: filters.status,
    model: filters.model,
    errors: filters.errors ? "yes" : "",
    cost: filters.minimumCost,
    began_since: midnight(filters.from, 0),
    began_until: midnight(filters.to, 1),
    query: query.trim(),
  };
  return new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString();
}

function midnight(date: string, days: number): string {
  const time = new Date(`${date}T00:00`);
  if (Number.isNaN(time.getTime())) return "";
  time.setDate(time.getDate() + days);
  return time.toISOString();
}

export function errorsOf(run: RunSummary): number {
  return (run.failed_llm_calls ?? 0) + (run.failed_tool_calls ?? 0);
}
