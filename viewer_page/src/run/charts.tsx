/** Charts of the tokens, context size, cache hits and cost of each call. The pointer shows the figures of a call. */
import { useMemo, useState } from "preact/hooks";
import type { Call } from "../data/types";
import { cost, count, plural, short } from "../ui/format";
import { useWidth } from "../ui/use_width";
import { useRun } from "./context";

const HEIGHT = 76;

interface Series {
  look: string;
  name: string;
  values: number[];
}

interface Chart {
  title: string;
  /** The series, which are stacked: the first one is at the bottom. */
  series: Series[];
  most: number;
  figure: (call: Call) => string;
  /** The value at the top of the chart; null if no value is known. */
  scale: string | null;
}

export function Charts() {
  const { outline, tree, show } = useRun();
  const calls = outline.interactions;
  const charts = useMemo(() => chartsOf(calls), [calls]);
  const [hover, setHover] = useState<number | null>(null);
  const open = (at: number) => {
    const number = calls[at]?.number;
    const row = tree.all.find((one) => one.calls.some((call) => call.number === number));
    if (row) show(row);
  };
  if (calls.length === 0) return <div class="charts muted">No call yet.</div>;
  return (
    <div class="charts">
      {charts.map((chart) => (
        <ChartView key={chart.title} chart={chart} calls={calls} hover={hover} setHover={setHover} open={open} />
      ))}
    </div>
  );
}

function chartsOf(calls: Call[]): Chart[] {
  const cached = calls.map((call) => Math.min(call.usage?.cache_read_input_tokens ?? 0, call.prompt_tokens ?? 0));
  const prompt = calls.map((call) => call.prompt_tokens ?? 0);
  const answers = calls.map((call) => call.completion_tokens ?? 0);
  const costs = calls.map((call) => call.cost ?? 0);
  const hits = prompt.map((tokens, at) => (tokens > 0 ? (100 * (cached[at] ?? 0)) / tokens : 0));
  const tokens = prompt.map((one, at) => one + (answers[at] ?? 0));
  const isCounted = prompt.some((one) => one > 0);
  const context = isCounted ? prompt : calls.map((call) => call.prompt.characters);
  const unit = isCounted ? "tokens" : "characters";
  return [
    {
      title: "Tokens",
      series: [
        { look: "cached", name: "cached", values: cached },
        { look: "prompt", name: "prompt", values: prompt.map((one, at) => one - (cached[at] ?? 0)) },
        { look: "answer", name: "answer", values: answers },
      ],
      most: Math.max(...tokens),
      figure: (call) => `${count(call.prompt_tokens)} in, ${count(call.completion_tokens)} out`,
      scale: `${short(Math.max(...tokens))} a call`,
    },
    {
      title: "Context",
      series: [{ look: "context", name: unit, values: context }],
      most: Math.max(...context),
      figure: (call) =>
        [
          call.prompt_tokens === null ? `${count(call.prompt.characters)} characters` : `${count(call.prompt_tokens)} tokens`,
          plural(call.prompt.count, "message"),
        ].join(", "),
      scale: `${short(Math.max(...context))} ${unit} in a prompt`,
    },
    {
      title: "Cache hits",
      series: [{ look: "cached", name: "of the prompt", values: hits }],
      most: 100,
      figure: (call) => `${Math.round(hits[call.number - 1] ?? 0)} %, ${count(cached[call.number - 1])} tokens`,
      scale: "100 % of a prompt",
    },
    {
      title: calls.some((call) => call.cost_estimated) ? "Cost, estimated" : "Cost",
      series: [{ look: "cost", name: "dollars", values: costs }],
      most: Math.max(...costs),
      figure: (call) => (call.cost === null || call.cost === undefined ? "unknown" : cost(call.cost)),
      scale: Math.max(...costs) > 0 ? `${cost(Math.max(...costs))} a call` : null,
    },
  ];
}

interface ViewProps {
  chart: Chart;
  calls: Call[];
  hover: number | null;
  setHover: (at: number | null) => void;
  open: (at: number) => void;
}

function ChartView({ chart, calls, hover, setHover, open }: ViewProps) {
  const [ref, width] = useWidth<HTMLDivElement>();
  const paths = useMemo(() => areas(chart, width), [chart, width]);
  const place = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.max(0, Math.min(calls.length - 1, Math.floor(((event.clientX - box.left) / box.width) * calls.length)));
  };
  const call = hover === null ? undefined : calls[hover];
  const step = width / calls.length;
  const scale = chart.scale === null ? "unknown" : `up to ${chart.scale}`;
  return (
    <figure class="chart">
      <figcaption>
        <strong>{chart.title}</strong>
        <span class="muted">{call ? `call ${call.number}: ${chart.figure(call)}` : scale}</span>
      </figcaption>
      <div ref={ref}>
        <svg
          width={width}
          height={HEIGHT}
          role="img"
          aria-label={`${chart.title} of ${calls.length} calls, ${scale}`}
          onMouseMove={(event) => setHover(place(event))}
          onMouseLeave={() => setHover(null)}
          onClick={(event) => open(place(event))}
        >
          <line class="axis" x1={0} x2={width} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
          {paths.map((path, at) => (
            <path key={at} class={chart.series[at]?.look} d={path} />
          ))}
          {hover !== null && <rect class="cross" x={hover * step} width={Math.max(step, 1)} y={0} height={HEIGHT} />}
        </svg>
      </div>
    </figure>
  );
}

/** One path for each series, stacked on the earlier ones. A step of the path is as wide as a call. */
function areas(chart: Chart, width: number): string[] {
  const calls = chart.series[0]?.values.length ?? 0;
  const floor = new Array<number>(calls).fill(0);
  const y = (value: number) => HEIGHT - (chart.most > 0 ? (value / chart.most) * (HEIGHT - 6) : 0);
  const step = width / Math.max(calls, 1);
  const gap = step > 6 ? 1 : 0;
  return chart.series.map(({ values }) =>
    values
      .map((value, at) => {
        const bottom = floor[at] ?? 0;
        floor[at] = bottom + value;
        if (value <= 0) return "";
        const [low, high] = [y(bottom), y(bottom + value)];
        return `M${(at * step).toFixed(2)} ${low.toFixed(1)}V${high.toFixed(1)}h${(step - gap).toFixed(2)}V${low.toFixed(1)}Z`;
      })
      .join(""),
  );
}
