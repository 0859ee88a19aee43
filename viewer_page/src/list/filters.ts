/** Which runs are listed, and in which order. Pure functions. */
import type { RunSummary } from "../data/types";
import { instant } from "../ui/format";

export interface Filters {
  text: string;
  /** A status, or what the caller judged. */
  status: string;
  model: string;
  from: string;
  to: string;
  errors: boolean;
  minimumCost: string;
}

export const NO_FILTERS: Filters = { text: "", status: "", model: "", from: "", to: "", errors: false, minimumCost: "" };

const COLUMNS = ["status", "task", "model", "start_time", "execution_time_seconds", "steps", "errors", "tokens", "cost", "rewards"] as const;

export type Column = (typeof COLUMNS)[number];

export interface Order {
  column: Column;
  descending: boolean;
}

export const NEWEST_FIRST: Order = { column: "start_time", descending: true };

/** How a run ended, and what the caller judged, if anything. */
export function statusesOf({ status, success }: RunSummary): string[] {
  return success === null ? [status] : [status, success ? "success" : "no success"];
}

/** The filters that an address has. */
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

/** The members of an address for these filters. */
export function filtersAsQuery({ minimumCost, errors, ...others }: Filters): Record<string, string> {
  return { ...others, errors: errors ? "yes" : "", cost: minimumCost };
}

/** The order that an address has: a column, or a column with a minus before it, which is descending. */
export function orderIn(query: URLSearchParams): Order {
  const sort = query.get("sort") ?? "";
  const column = COLUMNS.find((one) => one === sort.replace(/^-/, ""));
  return column ? { column, descending: sort.startsWith("-") } : NEWEST_FIRST;
}

export function orderAsQuery({ column, descending }: Order): Record<string, string> {
  return { sort: column === "start_time" && descending ? "" : `${descending ? "-" : ""}${column}` };
}

export function errorsOf(run: RunSummary): number {
  return (run.failed_llm_calls ?? 0) + (run.failed_tool_calls ?? 0);
}

export function tokensOf(run: RunSummary): number {
  return (run.total_input_tokens ?? 0) + (run.output_tokens ?? 0);
}

export function listed(runs: RunSummary[], filters: Filters, order: Order): RunSummary[] {
  const wanted = matcher(filters);
  const value = valueOf(order.column);
  const sign = order.descending ? -1 : 1;
  return runs
    .filter(wanted)
    .map((run) => ({ run, value: value(run) }))
    .sort((a, b) => compared(a.value, b.value, sign))
    .map((one) => one.run);
}

/** What is unknown stands at the end, whatever the direction. */
function compared(a: string | number | null, b: string | number | null, sign: number): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === "string" || typeof b === "string") return sign * (String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0);
  return sign * (a - b);
}

function valueOf(column: Column): (run: RunSummary) => string | number | null {
  switch (column) {
    case "errors":
      return errorsOf;
    case "tokens":
      return (run) => (run.total_input_tokens === null && run.output_tokens === null ? null : tokensOf(run));
    case "rewards":
      return (run) => {
        const values = Object.values(run.rewards ?? {});
        return values.length ? values.reduce((sum, one) => sum + one, 0) : null;
      };
    case "start_time":
      return (run) => {
        const time = instant(run.start_time ?? run.modified);
        return Number.isNaN(time) ? null : time;
      };
    case "task":
    case "model":
      return (run) => run[column]?.toLowerCase() ?? null;
    default:
      return (run) => run[column];
  }
}

function matcher(filters: Filters): (run: RunSummary) => boolean {
  const words = filters.text.toLowerCase().split(/\s+/).filter(Boolean);
  const from = filters.from ? Date.parse(`${filters.from}T00:00`) : Number.NEGATIVE_INFINITY;
  const to = filters.to ? Date.parse(`${filters.to}T00:00`) + 86_400_000 : Number.POSITIVE_INFINITY;
  const cost = Number(filters.minimumCost || Number.NaN);
  return (run) => {
    if (filters.status && !statusesOf(run).includes(filters.status)) return false;
    if (filters.model && run.model !== filters.model) return false;
    if (filters.errors && errorsOf(run) === 0 && run.status !== "failed") return false;
    if (!Number.isNaN(cost) && (run.cost ?? 0) < cost) return false;
    if (filters.from || filters.to) {
      const time = instant(run.start_time ?? run.modified);
      if (!(time >= from && time < to)) return false;
    }
    const text = `${run.task ?? ""} ${run.id} ${run.model ?? ""} ${run.provider ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
}
