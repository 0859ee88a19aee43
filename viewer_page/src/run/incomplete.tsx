/** The reason why a call is incomplete. While the run goes on, the head of the step says "waiting". */
import { visible } from "../content/visible";
import type { Call } from "../data/types";
import { useRun } from "./context";
import { Labelled } from "./labelled";

export function Incomplete({ call }: { call: Call }) {
  const { outline } = useRun();
  if (!call.incomplete || outline.run.status === "running") return null;
  return (
    <Labelled label="incomplete" look="warning">
      {visible(call.incomplete)}
    </Labelled>
  );
}
