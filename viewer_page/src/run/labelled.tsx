/** A line of the transcript: what it is on the left, what it says on the right. */
import type { ComponentChildren } from "preact";

export function Labelled({ label, look, children }: { label: ComponentChildren; look?: string; children: ComponentChildren }) {
  return (
    <div class={`labelled ${look ?? ""}`}>
      <div class="label">{label}</div>
      <div class="content">{children}</div>
    </div>
  );
}
