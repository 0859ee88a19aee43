/** The bar at the top of every view: the way back to the list, light or dark, help. */
import { hashOf, type Route } from "../data/route";
import type { Source } from "../data/source";
import { helpOpen } from "./shortcuts";
import { choose, isDark, theme } from "./theme";

export function TopBar({ source, at }: { source: Source; at: Route }) {
  const dark = (theme.value, isDark());
  return (
    <header class="top-bar">
      <a class="skip" href={hashOf(at)} onClick={skip}>
        To the content
      </a>
      {source.live ? (
        <nav aria-label="Pages">
          <a href="#/" class="brand" aria-current={at.page === "list" ? "page" : undefined}>
            <Mark /> trace recorder
          </a>
        </nav>
      ) : (
        <span class="brand">
          <Mark /> trace recorder
        </span>
      )}
      {at.page === "run" && <span class="muted mono file-name">{at.run}</span>}
      <span class="spacer" />
      <button type="button" class="icon" aria-label={dark ? "Light colours" : "Dark colours"} onClick={() => choose(dark ? "light" : "dark")}>
        {dark ? "☀" : "☾"}
      </button>
      <button type="button" class="icon" aria-label="Keys" onClick={() => (helpOpen.value = true)}>
        ?
      </button>
    </header>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  for (const place of [".transcript", ".runs-scroll", ".pairs"]) document.querySelector<HTMLElement>(place)?.focus();
}

function Mark() {
  return (
    <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" class="mark-icon">
      <circle cx="3.5" cy="3.5" r="2" />
      <circle cx="12.5" cy="8" r="2" />
      <circle cx="3.5" cy="12.5" r="2" />
      <path d="M5.5 4.4 10.6 7M10.6 9l-5.1 2.6" fill="none" stroke="currentColor" stroke-width="1.3" />
    </svg>
  );
}
