/** Code with colours. highlight.js makes a tree, and each node becomes a span. Long code has no colours. */
import type { ElementContent, RootContent } from "hast";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";

const languages = { bash, c, cpp, css, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml };
const highlighter = createLowlight(languages);
const LONGEST = 20_000;

export function Code({ text, language }: { text: string; language?: string | undefined }) {
  const shown = useMemo(() => coloured(text, language), [text, language]);
  return (
    <pre class="code" tabIndex={0} role="region" aria-label={language ? `${language} code` : "code"}>
      <code>{shown}</code>
    </pre>
  );
}

function coloured(text: string, language: string | undefined): ComponentChildren {
  if (!language || text.length > LONGEST || !highlighter.registered(language)) return text;
  return highlighter.highlight(language, text).children.map(node);
}

function node(one: RootContent | ElementContent, at: number): ComponentChildren {
  if (one.type === "text") return one.value;
  if (one.type !== "element") return null;
  const names = one.properties.className;
  return (
    <span key={at} class={Array.isArray(names) ? names.join(" ") : undefined}>
      {one.children.map(node)}
    </span>
  );
}

const ENDINGS = new Map(
  Object.entries({
    py: "python", sh: "bash", js: "javascript", mjs: "javascript", ts: "typescript", tsx: "typescript", json: "json",
    yaml: "yaml", yml: "yaml", css: "css", html: "xml", svg: "xml", xml: "xml", sql: "sql", go: "go", rs: "rust", c: "c",
    h: "c", cpp: "cpp", java: "java", diff: "diff", patch: "diff",
  }),
);

/** The language of a file, by the extension of its name. */
export function languageOf(file: string): string | undefined {
  return ENDINGS.get(/\.([a-z]+)$/i.exec(file)?.[1]?.toLowerCase() ?? "");
}
