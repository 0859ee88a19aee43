/** Light or dark: the setting of the system, until the reader chooses. Without storage the choice lasts as long as the page. */
import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "trace-recorder-theme";

export const theme = signal<Theme>("system");

export function startTheme(): void {
  const kept = stored();
  choose(kept === "light" || kept === "dark" ? kept : "system");
}

export function choose(wanted: Theme): void {
  theme.value = wanted;
  if (wanted === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
  try {
    localStorage.setItem(KEY, wanted);
  } catch {
    // No storage in a sandboxed frame.
  }
}

export function isDark(): boolean {
  return theme.value === "system" ? window.matchMedia("(prefers-color-scheme: dark)").matches : theme.value === "dark";
}

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
