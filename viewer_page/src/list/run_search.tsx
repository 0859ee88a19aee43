/** The search over all runs, in the language of `trace-recorder find`, with counts over the matching runs. */
import { useEffect, useState } from "preact/hooks";
import { visible } from "../content/visible";
import { setQuery } from "../data/route";
import type { SearchCounts } from "../data/types";
import { count, plural } from "../ui/format";
import type { RunsStore } from "./runs_store";

const WAIT_MS = 300;
const KINDS = ["status", "success", "model", "tool", "reward"] as const;
const MOST_SHOWN = 8;

/** Return a query when it has not changed for a moment, because the server refuses an incomplete term. */
export function useSettled(query: string): string {
  const [settled, setSettled] = useState(query);
  useEffect(() => {
    const later = setTimeout(() => setSettled(query), WAIT_MS);
    return () => clearTimeout(later);
  }, [query]);
  return settled;
}

export function RunSearchBar({ store, query }: { store: RunsStore; query: string }) {
  const put = (text: string) => setQuery({ q: text });
  const list = store.list.value;
  const refusal = store.refusal.value;
  const unsearched = list?.unsearched ?? 0;
  return (
    <search class="run-search" aria-label="Search all runs">
      <input
        id="run-search"
        type="search"
        aria-label="Search all runs"
        placeholder={'Search all runs: is:failed tag:nightly tool:bash>10 since:7d "exit code 1"'}
        value={query}
        spellcheck={false}
        onInput={(event) => put(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
      {query.trim() && (store.busy.value || unsearched > 0) && (
        <span class="muted">searching{unsearched > 0 && !store.busy.value ? ` ${plural(unsearched, "more run")}` : ""}…</span>
      )}
      {refusal && (
        <p class="warn" role="status">
          {visible(refusal)}
        </p>
      )}
      {list?.counts && query.trim() && !refusal && <Counts counts={list.counts} add={(term) => put(`${query.trim()} ${term}`)} />}
    </search>
  );
}

/** The number of runs with each value. A click adds the value to the search. */
function Counts({ counts, add }: { counts: SearchCounts; add: (term: string) => void }) {
  return (
    <dl class="run-counts">
      {KINDS.filter((kind) => counts[kind]?.length).map((kind) => (
        <div key={kind}>
          <dt>{kind}</dt>
          {counts[kind].slice(0, MOST_SHOWN).map(([name, runs]) => (
            <dd key={name}>
              <button type="button" class="link" onClick={() => add(termOf(kind, name))}>
                {visible(name)}
              </button>{" "}
              <span class="muted">{count(runs)}</span>
            </dd>
          ))}
          {counts[kind].length > MOST_SHOWN && <dd class="muted">and {count(counts[kind].length - MOST_SHOWN)} more</dd>}
        </div>
      ))}
    </dl>
  );
}

function termOf(kind: string, name: string): string {
  return `${kind}:${/^[\w./-]+$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`}`;
}
