/** The figures of two runs, next to each other. */
import { visible } from "../content/visible";
import { hashOf } from "../data/route";
import type { Outline } from "../data/types";
import { StatusBadge } from "../ui/elements";
import { costNote, costOf, costText, count, duration, firstLine } from "../ui/format";

export function Figures({ a, b }: { a: Outline; b: Outline }) {
  const [one, other] = [figuresOf(a), figuresOf(b)];
  return (
    <div class="table compare-figures" role="region" aria-label="Figures" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th />
            <th>Run</th>
            <th>Task</th>
            <th>Model</th>
            <th>Status</th>
            {one.map(([name]) => (
              <th key={name} class="figure">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Line name="A" outline={a} figures={one} />
          <Line name="B" outline={b} figures={other} />
          <tr class="muted">
            <td colSpan={5}>B against A</td>
            {one.map(([name, value], at) => (
              <td key={name} class="figure">
                {change(value, other[at]?.[1] ?? null)}
              </td>
            ))}
          </tr>
        </tbody>
      </table>
    </div>
  );
}

type Figure = [name: string, value: number | null, text: string, note?: string];

function Line({ name, outline, figures }: { name: string; outline: Outline; figures: Figure[] }) {
  return (
    <tr>
      <td>
        <strong>{name}</strong>
      </td>
      <td>
        <a href={hashOf({ page: "run", run: outline.id })}>{visible(outline.id)}</a>
      </td>
      <td class="cut">{visible(firstLine(outline.run.task ?? "", 80))}</td>
      <td class="cut">{visible(modelsOf(outline))}</td>
      <td>
        <StatusBadge status={outline.run.status} success={outline.run.success} />
      </td>
      {figures.map(([figure, , text, note]) => (
        <td key={figure} class="figure" title={note}>
          {text}
        </td>
      ))}
    </tr>
  );
}

function modelsOf({ run, interactions }: Outline): string {
  const models = [...new Set(interactions.map((call) => call.model).filter(Boolean))];
  return models.length > 0 ? models.join(", ") : (run.model ?? "");
}

function figuresOf(outline: Outline): Figure[] {
  const { run, interactions } = outline;
  const sum = (values: (number | null | undefined)[]) => values.reduce<number>((total, one) => total + (one ?? 0), 0);
  const prompt = sum(interactions.map((call) => call.prompt_tokens));
  const answers = sum(interactions.map((call) => call.completion_tokens));
  const made = interactions.filter((call) => call.replayed_from === null);
  const replayed = interactions.length - made.length;
  const costs = costOf(made);
  const errors = (run.metrics.failed_llm_calls ?? 0) + (run.metrics.failed_tool_calls ?? 0);
  return [
    ["Calls", made.length, count(made.length) + (replayed > 0 ? `, ${count(replayed)} replayed` : "")],
    ["Tools", run.metrics.tool_calls ?? 0, count(run.metrics.tool_calls)],
    ["Errors", errors, count(errors)],
    ["Tokens in", prompt, count(prompt)],
    ["Tokens out", answers, count(answers)],
    ["Cost", costs.dollars, costText(costs), costNote(costs)],
    ["Time", run.execution_time_seconds, duration(run.execution_time_seconds)],
  ];
}

function change(a: number | null, b: number | null): string {
  if (!a || b === null) return "";
  const percent = Math.round((100 * (b - a)) / a);
  return percent === 0 ? "=" : `${percent > 0 ? "+" : ""}${percent} %`;
}
