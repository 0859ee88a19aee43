/**
 * The place of the reader in the address after `#`, so that every place has a link: `#/`, `#/run/ID`, `#/run/ID/step/3`,
 * `#/run/ID/call/4/prompt`, `#/compare/A/B`, `#/table/A/B/C`. A link from another run names a call by its id:
 * `#/run/ID/call/llm_4`. The filters or the search are after a `?`, so a reload and the browser's "back" keep them.
 */
import { signal } from "@preact/signals";

export type PanelTab = "changes" | "prompt" | "answer" | "raw" | "stream" | "timing";

export const PANEL_TABS: PanelTab[] = ["changes", "prompt", "answer", "raw", "stream", "timing"];

export type Route =
  | { page: "list" }
  | { page: "run"; run: string; step?: number | undefined; call?: number | string | undefined; tab?: PanelTab | undefined }
  | { page: "compare"; a: string; b: string }
  | { page: "table"; runs: string[] };

export const route = signal<Route>({ page: "list" });

/** The filters of the list; or the search in a run and the open part above its transcript. */
export const query = signal(new URLSearchParams());
/** The newest filters of the list, for a reader who comes back from a run. */
let listQuery = query.value;

export function parsed(hash: string): Route {
  const [place = ""] = hash.replace(/^#?\/?/, "").split("?", 1);
  const [page, ...rest] = place.split("/").map(decoded);
  const [first, word, number, tab] = rest;
  if (page === "compare" && first && word) return { page, a: first, b: word };
  if (page === "table" && rest.length >= 2 && rest.every(Boolean)) return { page, runs: rest };
  if (page !== "run" || !first) return { page: "list" };
  const n = Number(number);
  const isNumber = Number.isInteger(n) && n >= 1;
  if (word === "step" && isNumber) return { page, run: first, step: n };
  if (word === "call" && number) return { page, run: first, call: isNumber ? n : number, tab: PANEL_TABS.find((one) => one === tab) };
  return { page, run: first };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function hashOf(to: Route): string {
  if (to.page === "list") return "#/";
  if (to.page === "compare") return `#/compare/${encodeURIComponent(to.a)}/${encodeURIComponent(to.b)}`;
  if (to.page === "table") return `#/table/${to.runs.map(encodeURIComponent).join("/")}`;
  const run = `#/run/${encodeURIComponent(to.run)}`;
  if (to.call !== undefined) return `${run}/call/${encodeURIComponent(to.call)}/${to.tab ?? "changes"}`;
  return to.step === undefined ? run : `${run}/step/${to.step}`;
}

/** The place of the list with the runs that match a search. */
export function hashOfSearch(q: string): string {
  return `#/?${new URLSearchParams({ q })}`;
}

/**
 * Go to a place. With `quietly` the browser's history does not grow, as for a step after a step. Within a run, and to the list,
 * the filters stay.
 */
export function go(to: Route, quietly = false): void {
  if (!isSamePage(route.value, to)) query.value = to.page === "list" ? listQuery : new URLSearchParams();
  route.value = to;
  setAddress(quietly);
}

/** Change filters. An empty text removes a filter. */
export function setQuery(changes: Record<string, string>): void {
  const changed = new URLSearchParams(query.value);
  for (const [name, text] of Object.entries(changes)) {
    if (text) changed.set(name, text);
    else changed.delete(name);
  }
  query.value = changed;
  if (route.value.page === "list") listQuery = changed;
  setAddress(true);
}

function isSamePage(one: Route, other: Route): boolean {
  return one.page === other.page && (one.page !== "run" || other.page !== "run" || one.run === other.run);
}

function setAddress(quietly: boolean): void {
  const filters = query.value.toString();
  const address = hashOf(route.value) + (filters && `?${filters}`);
  try {
    if (quietly) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
  } catch {
    // A page inside a sandboxed frame, as in a notebook, has no address of its own.
  }
}

export function startRouting(first: Route | null): void {
  const read = () => {
    const hash = window.location.hash;
    route.value = hash.length > 2 || !first ? parsed(hash) : first;
    query.value = new URLSearchParams(hash.split("?").slice(1).join("?"));
    if (route.value.page === "list") listQuery = query.value;
  };
  document.addEventListener("click", followLink);
  window.addEventListener("hashchange", read);
  window.addEventListener("popstate", read);
  read();
}

/** Follow links within the page here. In a frame without an address, the browser would open another page. */
function followLink(event: MouseEvent): void {
  const link = (event.target as Element).closest<HTMLAnchorElement>('a[href^="#/"]');
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const place = link.getAttribute("href") ?? "";
  const [, search] = place.split("?", 2);
  if (search !== undefined) query.value = listQuery = new URLSearchParams(search);
  go(parsed(place));
}
