/** The rewards and notes of a run, and forms that add new ones to its journal. */
import { useState } from "preact/hooks";
import { JsonTree } from "../content/json_tree";
import { visible } from "../content/visible";
import { rowNumber } from "../data/rows";
import type { Outline } from "../data/types";
import { dateTime } from "../ui/format";
import { useRun } from "./context";

export function Rewards() {
  const { outline } = useRun();
  const { rewards, annotations } = outline.run;
  const refusal = whyNot(outline, useRun().store.source.live);
  return (
    <div class="rewards">
      <section>
        <h4>Rewards</h4>
        {rewards.length === 0 && <p class="muted">None yet.</p>}
        {rewards.length > 0 && (
          <div class="table" role="region" aria-label="Rewards" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th>Name</th>
                  <th class="figure">Value</th>
                  <th class="figure">Weight</th>
                  <th class="figure">Step</th>
                  <th>Why</th>
                  <th>When</th>
                </tr>
              </thead>
              <tbody>
                {rewards.map((one, at) => (
                  <tr key={at}>
                    <td>{visible(one.name)}</td>
                    <td class="figure">{String(one.value)}</td>
                    <td class="figure">{String(one.weight)}</td>
                    <td class="figure">{one.step_number ?? "all"}</td>
                    <td>{visible(one.explanation ?? "")}</td>
                    <td class="muted">{dateTime(one.timestamp)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        <h4>Notes</h4>
        {Object.keys(annotations).length === 0 ? <p class="muted">None yet.</p> : <JsonTree value={annotations} open={2} />}
      </section>
      <section>
        {refusal ? <p class="refusal">{refusal}</p> : null}
        <fieldset disabled={refusal !== null}>
          <RewardForm />
          <NoteForm />
        </fieldset>
      </section>
    </div>
  );
}

function whyNot(outline: Outline, live: boolean): string | null {
  if (!live) return "This file is a copy. Add rewards and notes to the run itself.";
  if (outline.writable) return null;
  if (outline.run.status === "running") return "The run is still being written. Rewards and notes can be added when it has ended.";
  return "Rewards and notes cannot be added: the run may still be running, it has no journal, or the viewer is read-only.";
}

/** The state of a form after it was sent. */
function useSending(): [string | null, boolean, (what: "rewards" | "annotations", body: object) => Promise<boolean>] {
  const { store } = useRun();
  const [said, setSaid] = useState<{ text: string; bad: boolean } | null>(null);
  const send = async (what: "rewards" | "annotations", body: object) => {
    try {
      store.apply(await store.source.add(store.id, what, body));
      setSaid({ text: "Added to the journal.", bad: false });
      return true;
    } catch (failure) {
      setSaid({ text: failure instanceof Error ? failure.message : String(failure), bad: true });
      return false;
    }
  };
  return [said?.text ?? null, said?.bad ?? false, send];
}

function RewardForm() {
  const { tree, selected } = useRun();
  const [said, bad, send] = useSending();
  const row = tree.all.find((one) => one.key === selected);
  const submit = async (event: Event) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const data = new FormData(form);
    const text = (name: string) => String(data.get(name) ?? "").trim();
    const body: Record<string, unknown> = { name: text("name"), value: Number(text("value")) };
    if (text("weight")) body.weight = Number(text("weight"));
    if (text("explanation")) body.explanation = text("explanation");
    if (data.get("step") && row?.step) body.step_number = row.step.step_number ?? row.step.number;
    if (await send("rewards", body)) form.reset();
  };
  return (
    <form class="add" aria-label="Add a reward" onSubmit={(event) => void submit(event)}>
      <label>
        Reward <input name="name" required placeholder="correct" />
      </label>
      <label>
        Value <input name="value" required type="number" step="any" placeholder="1.0" />
      </label>
      <label>
        Weight <input name="weight" type="number" step="any" placeholder="1.0" />
      </label>
      <label class="wide">
        Why <input name="explanation" />
      </label>
      {row?.step && (
        <label class="check">
          <input name="step" type="checkbox" /> for step {rowNumber(row)} only
        </label>
      )}
      <button type="submit">Add reward</button>
      {said && (
        <output class={bad ? "bad-text" : "good-text"} role="status">
          {said}
        </output>
      )}
    </form>
  );
}

function NoteForm() {
  const [said, bad, send] = useSending();
  const submit = async (event: Event) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const data = new FormData(form);
    const body = { key: String(data.get("key") ?? "").trim(), value: String(data.get("value") ?? "") };
    if (await send("annotations", body)) form.reset();
  };
  return (
    <form class="add" aria-label="Add a note" onSubmit={(event) => void submit(event)}>
      <label>
        Note <input name="key" required defaultValue="note" />
      </label>
      <label class="wide">
        Text <input name="value" required />
      </label>
      <button type="submit">Add note</button>
      {said && (
        <output class={bad ? "bad-text" : "good-text"} role="status">
          {said}
        </output>
      )}
    </form>
  );
}
