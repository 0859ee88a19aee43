/** The head of a run: its task, its status, its figures, and the buttons for the part above the transcript. */
import { visible } from "../content/visible";
import { StatusBadge } from "../ui/elements";
import { RunRelations } from "../ui/relations";
import { costNote, costOf, costText, count, duration, firstLine, percent, plural, short } from "../ui/format";
import { useRun } from "./context";
import { SearchBox } from "./search_box";

const STRIPS = ["timeline", "charts", "about", "rewards", "none"] as const;

export type Strip = (typeof STRIPS)[number];

/** The strip above the transcript that an address names. */
export function stripIn(query: URLSearchParams): Strip {
  return STRIPS.find((one) => one === query.get("show")) ?? "timeline";
}

interface Props {
  strip: Strip;
  setStrip: (strip: Strip) => void;
  outlineOpen: boolean;
  setOutlineOpen: (open: boolean) => void;
  /** Show the whole head in a narrow window, where it is one line while the transcript is scrolled. */
  showHead: () => void;
}

export function RunHead({ strip, setStrip, outlineOpen, setOutlineOpen, showHead }: Props) {
  const { outline, store } = useRun();
  const { run } = outline;
  const title = firstLine(run.task ?? outline.id, 200);
  const additions = run.rewards.length + Object.keys(run.annotations).length;
  const strips: [Strip, string][] = [
    ["timeline", "Timeline"],
    ["charts", "Charts"],
    ["about", run.gaps.length > 0 ? `About (${plural(run.gaps.length, "gap")})` : "About"],
    ["rewards", additions > 0 ? `Rewards (${additions})` : "Rewards"],
  ];
  return (
    <header class="run-head">
      <div class="run-title">
        <button
          type="button"
          class="icon"
          aria-label={outlineOpen ? "Hide the list of steps" : "Show the list of steps"}
          aria-expanded={outlineOpen}
          onClick={() => setOutlineOpen(!outlineOpen)}
        >
          ☰
        </button>
        <h1 title={visible(run.task ?? outline.id)}>{visible(title)}</h1>
        <StatusBadge status={run.status} success={run.success} />
        {store.offline.value && <span class="warn">The server does not answer.</span>}
        <span class="spacer" />
        <button type="button" class="icon show-head" aria-label="Show the head of the run" onClick={showHead}>
          ⌄
        </button>
        <SearchBox showHead={showHead} />
      </div>
      <RunRelations outline={outline} />
      <div class="run-bar">
        <Figures />
        <span class="spacer" />
        <div class="strip-buttons" role="group" aria-label="Shown above the transcript">
          {strips.map(([name, label]) => (
            <button key={name} type="button" class="small" aria-pressed={strip === name} onClick={() => setStrip(strip === name ? "none" : name)}>
              {label}
            </button>
          ))}
          {store.source.saveAddress && (
            <a class="button small" href={store.source.saveAddress(store.id)} download title="Save the run as one HTML file, to be mailed or attached to a ticket">
              Save
            </a>
          )}
        </div>
      </div>
      {run.error && (
        <p class="run-error" title={visible(run.error.message)}>
          {visible(run.error.type)}: {visible(firstLine(run.error.message, 300))}
        </p>
      )}
    </header>
  );
}

function Figures() {
  const { outline } = useRun();
  const { run } = outline;
  const { metrics } = run;
  const calls = outline.interactions;
  const made = calls.filter((call) => call.replayed_from === null);
  const replayed = calls.length - made.length;
  const total = (figure: (call: (typeof calls)[number]) => number | null | undefined) => calls.reduce((sum, call) => sum + (figure(call) ?? 0), 0);
  const prompt = total((call) => call.prompt_tokens);
  const answer = total((call) => call.completion_tokens);
  const cached = total((call) => call.usage?.cache_read_input_tokens);
  const costs = costOf(made);
  const failures = (metrics.failed_llm_calls ?? 0) + (metrics.failed_tool_calls ?? 0);
  const models = [...new Set(calls.map((call) => call.model).filter(Boolean))];
  const figures: [string, string, string][] = [
    ["model", visible(models.length > 1 ? `${models.length} models` : (models[0] ?? run.model ?? "")), models.join(", ")],
    ["steps", count(outline.steps.length), ""],
    ["calls", count(made.length) + (replayed > 0 ? `, ${count(replayed)} replayed` : ""), ""],
    ["tools", count(metrics.tool_calls), "tool calls"],
    ["errors", failures > 0 ? count(failures) : "", `${metrics.failed_llm_calls ?? 0} calls, ${metrics.failed_tool_calls ?? 0} tools`],
    ["time", duration(run.execution_time_seconds), ""],
    ["tokens", prompt > 0 ? `${short(prompt)} → ${short(answer)}` : "", `${count(prompt)} in, ${count(answer)} out`],
    ["cached", cached > 0 ? percent(cached, prompt) : "", `${count(cached)} tokens`],
    ["cost", costText(costs), costNote(costs)],
  ];
  return (
    <dl class="run-figures">
      {figures.filter(([, value]) => value).map(([name, value, title]) => (
        <div key={name} class={name} title={title}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
