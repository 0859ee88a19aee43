/** The start of the page: it finds the data, shows the view of the address with the bar at the top, and listens to keys. */
import { render } from "preact";
import { useMemo } from "preact/hooks";
import { CompareView } from "./compare/compare_view";
import { TableView } from "./compare/table_view";
import { go, route, type Route, startRouting } from "./data/route";
import { pageData, type Source, sourceOf } from "./data/source";
import type { PageData } from "./data/types";
import { RunListView } from "./list/run_list";
import { RunsStore } from "./list/runs_store";
import { RunView } from "./run/run_view";
import { Refused } from "./ui/refused";
import { Notice } from "./ui/elements";
import { Help } from "./ui/help";
import { helpOpen, startShortcuts, useShortcuts } from "./ui/shortcuts";
import { startTheme } from "./ui/theme";
import { TopBar } from "./ui/top_bar";

function firstRoute(data: Exclude<PageData, { kind: "refused" }>): Route | null {
  if (data.kind === "file") return { page: "run", run: data.id };
  if (data.kind === "comparison") return { page: "compare", a: data.a.id, b: data.b.id };
  return data.run ? { page: "run", run: data.run } : null;
}

function App({ source, first }: { source: Source; first: Route | null }) {
  const runs = useMemo(() => new RunsStore(source), [source]);
  useShortcuts([
    { keys: ["?"], label: "this help", run: () => (helpOpen.value = true) },
    ...(source.live ? [{ keys: ["l"], label: "list of runs", run: () => go({ page: "list" }) }] : []),
  ]);
  const opened = route.value.page === "list" && !source.live && first ? first : route.value;
  return (
    <>
      <TopBar source={source} at={opened} />
      {opened.page === "list" && <RunListView store={runs} source={source} />}
      {opened.page === "run" && <RunView key={opened.run} source={source} id={opened.run} />}
      {opened.page === "compare" && <CompareView key={`${opened.a} ${opened.b}`} source={source} a={opened.a} b={opened.b} />}
      {opened.page === "table" && <TableView key={opened.runs.join(" ")} source={source} runs={opened.runs} />}
      <Notice />
      {helpOpen.value && <Help />}
    </>
  );
}

const data = pageData();
const place = document.getElementById("app") ?? document.body;
startTheme();
if (data.kind === "refused") render(<Refused error={data.error} />, place);
else {
  const first = firstRoute(data);
  startRouting(first);
  startShortcuts();
  render(<App source={sourceOf(data)} first={first} />, place);
}
