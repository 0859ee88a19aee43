/** The tables of groups as texts, as the command `stats --by` prints them. Pure functions. */
import { visible } from "../content/visible";
import type { Estimate, GroupDifference, GroupFigure, GroupKey, Groups, RunGroup, TaskPairs } from "../data/types";
import { count, duration, plural, short } from "../ui/format";

/** A table: what its cells are, its titles, and its rows. `missing` is how many further rows or columns there are. */
export interface GroupTable {
  caption: string;
  titles: string[];
  rows: string[][];
  missing: number;
}

const NAME_CHARACTERS = 60;
const NO_INTERVAL = "no interval";
type Figure = [name: GroupFigure, title: string, form: (value: number) => string];

const FIGURES: Figure[] = [
  ["cost", "Cost", dollars],
  ["tokens", "Tokens", rounded],
  ["seconds", "Time", duration],
  ["calls", "Calls", rounded],
  ["tool_calls", "Tool calls", rounded],
  ["tool_errors", "Tool errors", rounded],
  ["list_tokens", "Tool list", rounded],
];

/** The figures to show. The tokens of lists of tools are left out if no run used an MCP server. */
function figuresOf({ groups }: Groups): Figure[] {
  return FIGURES.filter(([figure]) => figure !== "list_tokens" || groups.some((group) => group.figures[figure]));
}

export function tablesOf(groups: Groups): GroupTable[] {
  return groups.by.length === 1 ? oneGrouping(groups) : twoGroupings(groups);
}

function oneGrouping(all: Groups): GroupTable[] {
  const { by, groups, differences, against } = all;
  const figures = figuresOf(all);
  const titles = figures.map(([, title]) => title);
  const grouping = by[0]?.by ?? "";
  const missing = (by[0]?.count ?? 0) - (by[0]?.names.length ?? 0);
  const reference = shown(against);
  const paired = differences.flatMap(({ key, pairs }) => (pairs ? [{ key, pairs }] : []));
  return [
    {
      caption: "Successes with a 95 % interval; medians with quartiles, of the runs that have the figure",
      titles: [grouping, "Runs", "Success", ...titles],
      rows: groups.map((group) => [name(group.key), count(group.runs), success(group), ...spreads(group, figures)]),
      missing,
    },
    {
      caption: `Less ${reference}: differences of shares (in points) and of medians, with 95 % intervals`,
      titles: [grouping, "Success", ...titles],
      rows: differences.map((difference) => differenceRow(difference, figures)),
      missing,
    },
    {
      caption: `Less ${reference}, over the tasks that both did: medians of the differences in each task`,
      titles: [grouping, "Tasks", "Success", ...titles],
      rows: paired.map(({ key, pairs }) => pairedRow(key, pairs, figures)),
      missing: 0,
    },
  ].filter(({ rows }) => rows.length > 0);
}

function twoGroupings({ by, groups }: Groups): GroupTable[] {
  const [rows, columns] = by;
  if (!rows || !columns) return [];
  const missing = Math.max(rows.count - rows.names.length, columns.count - columns.names.length);
  const places = new Map(groups.map((group) => [JSON.stringify(Object.values(group.key)), group]));
  const table = (title: string, cell: (group: RunGroup) => string): GroupTable => ({
    caption: title,
    titles: [rows.by, ...columns.names.map(shown)],
    rows: rows.names.map((row) => [
      shown(row),
      ...columns.names.map((column) => {
        const group = places.get(JSON.stringify([row, column]));
        return group ? cell(group) : "";
      }),
    ]),
    missing,
  });
  return [
    table("Successes, with a 95 % interval", success),
    ...FIGURES.filter(([figure]) => groups.some((group) => group.figures[figure])).map(([figure, title, form]) =>
      table(`${title}: medians of the runs`, (group) => spreadText(group, figure, form)),
    ),
  ];
}

/** What was left out of the groups, and what their figures lack. */
export function notesOf(all: Groups): string[] {
  const { by, runs, replays, running, unreadable, prices, forks } = all;
  const left = [
    ...(replays > 0 ? [plural(replays, "replay")] : []),
    ...(running > 0 ? [plural(running, "running run")] : []),
    ...(unreadable > 0 ? [plural(unreadable, "unreadable run")] : []),
  ];
  return [
    plural(runs, "run"),
    ...by.map(({ by: grouping, rule }) => `${grouping}: ${rule}`),
    ...(left.length > 0 ? [`left out: ${left.join(", ")}`] : []),
    ...(forks > 0 ? [`${plural(forks, "fork")}: their figures leave out the calls of their parents`] : []),
    ...(prices ? [`≈: a cost with estimates by ${prices}`] : []),
    ...(figuresOf(all).length === FIGURES.length
      ? ["Tool list: the tokens that the tools of MCP servers take of each prompt, estimated by their characters"]
      : []),
  ];
}

function shown(text: string | null): string {
  if (text === null) return "(none)";
  return visible(text.length > NAME_CHARACTERS ? `${text.slice(0, NAME_CHARACTERS - 1)}…` : text);
}

function name(key: GroupKey): string {
  return Object.values(key).map(shown).join(" / ");
}

function success({ success: share, succeeded, judged }: RunGroup): string {
  if (!share) return "none judged";
  return `${count(succeeded)} of ${count(judged)}, ${percent(share.value)} (${percent(share.low ?? 0)} to ${percent(share.high ?? 0)})`;
}

function spreads(group: RunGroup, figures: Figure[]): string[] {
  return figures.map(([figure, , form]) => spreadText(group, figure, form));
}

function spreadText(group: RunGroup, figure: GroupFigure, form: (value: number) => string): string {
  const spread = group.figures[figure];
  if (!spread) return "?";
  const estimated = figure === "list_tokens" || (figure === "cost" && group.estimated_costs > 0) ? "≈ " : "";
  const part = spread.runs < group.runs ? ` of ${count(spread.runs)}` : "";
  return `${estimated}${form(spread.median.value)} (${form(spread.low_quartile)} to ${form(spread.high_quartile)})${part}`;
}

function differenceRow({ key, success: share, figures }: GroupDifference, shownFigures: Figure[]): string[] {
  return [name(key), change(share, points), ...shownFigures.map(([figure, , form]) => change(figures[figure], form))];
}

function pairedRow(key: GroupKey, { tasks, success: share, figures }: TaskPairs, shownFigures: Figure[]): string[] {
  const judged = share
    ? `${count(share.better)} better, ${count(share.worse)} worse, ${count(share.equal)} equal: ${change(share.difference, points)}`
    : "?";
  return [name(key), count(tasks), judged, ...shownFigures.map(([figure, , form]) => change(figures[figure]?.difference ?? null, form))];
}

function change(estimate: Estimate | null, form: (value: number) => string): string {
  if (!estimate) return "?";
  const { value, low, high } = estimate;
  const interval = low === null || high === null ? NO_INTERVAL : `${signed(low, form)} to ${signed(high, form)}`;
  return `${signed(value, form)} (${interval})`;
}

function signed(value: number, form: (value: number) => string): string {
  const text = form(Math.abs(value));
  if (text === form(0)) return text;
  return `${value < 0 ? "−" : "+"}${text}`;
}

function dollars(value: number): string {
  return value === 0 ? "$0" : `$${value < 1 ? Number(value.toPrecision(3)).toFixed(6).replace(/0+$/, "") : value.toFixed(2)}`;
}

function rounded(value: number): string {
  return short(Number(value.toFixed(1)));
}

function percent(share: number): string {
  return `${Math.round(100 * share)} %`;
}

function points(share: number): string {
  return String(Math.round(100 * share));
}
