/** What is shown above the transcript: the timeline, the charts, the facts of the run, its rewards; or nothing. */
import { About } from "./about";
import { Charts } from "./charts";
import { Rewards } from "./rewards";
import type { Strip } from "./run_head";
import { TimelineView } from "./timeline";

const VIEWS = { timeline: TimelineView, charts: Charts, about: About, rewards: Rewards };

export function StripView({ strip }: { strip: Strip }) {
  if (strip === "none") return null;
  const View = VIEWS[strip];
  return (
    <section id="strip" class="strip" aria-label={strip} tabIndex={0}>
      <View />
    </section>
  );
}
