/** A line of the transcript: a label on the left, the content on the right. */
import type { ComponentChildren } from "preact";

export function Labelled({ label, look, children }: { label: ComponentChildren; look?: string; children: ComponentChildren }) {
  return (
    <div class={`labelled ${look ?? ""}`}>
      <div class="label">{label}</div>
      <div class="content">{children}</div>
    </div>
  );
}
