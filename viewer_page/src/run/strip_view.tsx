/** The part above the transcript: the timeline, the charts, the facts of the run, its rewards, or nothing. */
import { Drawn } from "../content/drawn";
import { jsonText } from "../content/json_text";
import { About } from "./about";
import { Charts } from "./charts";
import { useRun } from "./context";
import { Rewards } from "./rewards";
import type { Strip } from "./run_head";
import { TimelineView } from "./timeline";

const VIEWS = { timeline: TimelineView, charts: Charts, about: About, rewards: Rewards };

export function StripView({ strip }: { strip: Strip }) {
  const { outline } = useRun();
  if (strip === "none") return null;
  const View = VIEWS[strip];
  return (
    <section id="strip" class="strip" aria-label={strip} tabIndex={0}>
      <Drawn of={outline} text={() => jsonText(outline.run, 2)}>
        <View />
      </Drawn>
    </section>
  );
}
