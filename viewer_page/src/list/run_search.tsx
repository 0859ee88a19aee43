/** The search over all runs, in the language of `trace-recorder find`, and counts over the runs that match. */
import { useEffect, useState } from "preact/hooks";
import { visible } from "../content/visible";
import { setQuery } from "../data/route";
import type { Source } from "../data/source";
import type { FoundRuns } from "../data/types";
import { count } from "../ui/format";

const WAIT_MS = 300;
const KINDS = ["status", "success", "model", "tool", "reward"] as const;
const MOST_SHOWN = 8;

export interface RunSearch {
  query: string;
  /** The ids of the runs that match; null if nothing is searched. */
  found: ReadonlySet<string> | null;
  counts: FoundRuns["counts"] | null;
  error: string | null;
  busy: boolean;
}

/** Search when the query has not changed for a moment. */
export function useRunSearch(source: Source, query: string): RunSearch {
  const [state, setState] = useState<Omit<RunSearch, "query">>({ found: null, counts: null, error: null, busy: false });
  useEffect(() => {
    let wanted = true;
    if (!query.trim() || !source.find) {
      setState({ found: null, counts: null, error: null, busy: false });
      return;
    }
    setState((before) => ({ ...before, busy: true }));
    const later = setTimeout(() => {
      source.find?.(query).then(
        (answer) => wanted && setState({ found: new Set(answer.runs), counts: answer.counts, error: null, busy: false }),
        (failure: unknown) =>
          wanted && setState((before) => ({ ...before, error: failure instanceof Error ? failure.message : String(failure), busy: false })),
      );
    }, WAIT_MS);
    return () => {
      wanted = false;
      clearTimeout(later);
    };
  }, [source, query]);
  return { query, ...state };
}

export function RunSearchBar({ search }: { search: RunSearch }) {
  const put = (text: string) => setQuery({ q: text });
  return (
    <search class="run-search" aria-label="Search all runs">
      <input
        id="run-search"
        type="search"
        aria-label="Search all runs"
        placeholder={'Search all runs: status:failed tool:bash>10 since:7d "exit code 1"'}
        value={search.query}
        spellcheck={false}
        onInput={(event) => put(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
      {search.busy && <span class="muted">searching…</span>}
      {search.error && (
        <p class="warn" role="status">
          {visible(search.error)}
        </p>
      )}
      {search.counts && !search.error && <Counts counts={search.counts} add={(term) => put(`${search.query.trim()} ${term}`)} />}
    </search>
  );
}

/** How many of the runs have each value. A click adds the value to the search. */
function Counts({ counts, add }: { counts: FoundRuns["counts"]; add: (term: string) => void }) {
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
