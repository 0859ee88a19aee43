/** Keys: each view registers its keys with their meaning, and `?` lists them. */
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

export interface Shortcut {
  /** Names of KeyboardEvent.key. The help shows the first one. */
  keys: string[];
  label: string;
  run: () => void;
}

export const helpOpen = signal(false);
const views: Shortcut[][] = [];

export function useShortcuts(shortcuts: Shortcut[]): void {
  useLayoutEffect(() => {
    views.push(shortcuts);
    return () => {
      views.splice(views.indexOf(shortcuts), 1);
    };
  });
}

export function activeShortcuts(): Shortcut[] {
  return views.flat();
}

export function startShortcuts(): void {
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const element = event.target as HTMLElement | null;
    if (element?.closest("dialog")) return;
    if (event.key === "Escape") return run("Escape", event);
    if (element?.closest("input, textarea, select")) return;
    if (event.key === "Enter" && element?.closest("button, a, summary")) return;
    run(event.key, event);
  });
}

function run(key: string, event: KeyboardEvent): void {
  const shortcut = activeShortcuts().findLast((one) => one.keys.includes(key));
  if (!shortcut) return;
  event.preventDefault();
  shortcut.run();
}
