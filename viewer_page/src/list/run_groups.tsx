/** Groups of the listed runs: success, cost, tokens and time of each group, and their differences. */
import { useEffect, useState } from "preact/hooks";
import { visible } from "../content/visible";
import { query, setQuery } from "../data/route";
import type { Source } from "../data/source";
import type { Groups } from "../data/types";
import { count, plural } from "../ui/format";
import { type GroupTable, notesOf, tablesOf } from "./group_cells";
import { useSettled } from "./run_search";

const GROUPINGS = ["model", "provider", "task", "agent", "tool", "server", "day", "status", "meta:KEY"];
const EVERY_SECONDS = 2;

export function RunGroups({ source, parameters }: { source: Source; parameters: string }) {
  const filters = new URLSearchParams(parameters);
  filters.delete("sort");
  const [first, second] = [query.value.get("by") ?? "", query.value.get("by2") ?? ""];
  const by = useSettled([first, first && second].map((text) => text.trim()).filter(Boolean).join("\n"));
  return (
    <section class="groups" aria-label="Groups of runs">
      <div class="groups-by">
        <GroupingInput label="Group by" name="by" value={first} />
        {first && <GroupingInput label="and by" name="by2" value={second} />}
        <datalist id="groupings">
          {GROUPINGS.map((grouping) => (
            <option key={grouping} value={grouping} />
          ))}
        </datalist>
      </div>
      {by && <GroupTables key={`${by}\n${filters}`} source={source} filters={filters.toString()} by={by.split("\n")} />}
    </section>
  );
}

function GroupingInput({ label, name, value }: { label: string; name: string; value: string }) {
  return (
    <label>
      {label}{" "}
      <input
        type="search"
        list="groupings"
        placeholder="model, task, meta:KEY"
        spellcheck={false}
        value={value}
        onInput={(event) => setQuery({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}

function GroupTables({ source, filters, by }: { source: Source; filters: string; by: string[] }) {
  const [groups, setGroups] = useState<Groups | null>(null);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let wanted = true;
    const ask = async () => {
      let seconds = EVERY_SECONDS;
      try {
        const answer = document.hidden ? null : await source.groups?.(filters, by);
        if (!wanted) return;
        if (answer) {
          setGroups(answer);
          setError(null);
          seconds = answer.next_seconds;
        }
      } catch (failure) {
        if (!wanted) return;
        setError(failure instanceof Error ? failure.message : String(failure));
      }
      timer = setTimeout(() => void ask(), seconds * 1000);
    };
    void ask();
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [source]);
  if (error) return <p class="warn">{visible(error)}</p>;
  if (!groups) return <p class="muted">Reading the runs…</p>;
  return (
    <div class="groups-tables" tabIndex={0} role="region" aria-label={`Runs by ${by.join(" and ")}`}>
      <p class="muted">
        {notesOf(groups).map(visible).join(". ")}
        {groups.unread > 0 && `. Reading ${plural(groups.unread, "more run")}…`}
      </p>
      {tablesOf(groups).map((table) => (
        <OneTable key={table.caption} table={table} />
      ))}
    </div>
  );
}

function OneTable({ table: { caption, titles, rows, missing } }: { table: GroupTable }) {
  const [first = "", ...others] = titles;
  return (
    <table>
      <caption>
        <span>{caption}</span>
      </caption>
      <thead>
        <tr>
          <th scope="col">{visible(first)}</th>
          {others.map((title, at) => (
            <th key={at} scope="col" class="figure">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, ...cells], at) => (
          <tr key={at}>
            <th scope="row">{name}</th>
            {cells.map((cell, place) => (
              <td key={place} class="figure">
                {cell}
              </td>
            ))}
          </tr>
        ))}
        {missing > 0 && (
          <tr>
            <td class="muted" colSpan={titles.length}>
              and {count(missing)} more: stats --by prints them with --json
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}
