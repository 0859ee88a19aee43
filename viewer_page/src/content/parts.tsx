/** The parts of messages, answers and tool results, each drawn by its type. A cut part can be loaded whole. */
import { useMemo, useState } from "preact/hooks";
import type { Part } from "../data/types";
import { count } from "../ui/format";
import { partText } from "./as_text";
import { Drawn } from "./drawn";
import { JsonTree } from "./json_tree";
import { LongText } from "./long_text";
import { safeImage } from "./safe_address";
import { visible } from "./visible";

export type LoadWhole = () => Promise<void>;

interface Props {
  part: Part;
  /** Texts of people and models are markdown. Texts of tools are not. */
  markdown?: boolean;
  whole?: LoadWhole | undefined;
  file?: string | undefined;
}

export function Parts({ parts, ...props }: Omit<Props, "part"> & { parts: Part[] }) {
  return (
    <>
      {parts.map((part, at) => (
        <PartView key={at} part={part} {...props} />
      ))}
    </>
  );
}

export function PartView({ part, markdown = false, whole, file }: Props) {
  return (
    <>
      <Drawn of={part} text={() => partText(part)}>
        <Inner part={part} markdown={markdown} file={file} />
      </Drawn>
      {part.cut && <CutNote part={part} whole={whole} />}
    </>
  );
}

function Inner({ part, markdown, file }: Omit<Props, "whole">) {
  switch (part.type) {
    case "text":
      return markdown ? <LongText text={part.text} markdown /> : <ToolText text={part.text} cut={part.cut} file={file} />;
    case "reasoning":
      return <Reasoning text={part.text} />;
    case "image":
      return <ImagePart part={part} />;
    case "tool_call":
      return (
        <div class="tool-call">
          <span class="tool-name">{visible(part.name)}</span>
          {part.cut ? <LongText text={part.text ?? ""} /> : <Arguments value={part.arguments} />}
        </div>
      );
    case "json":
      if (part.cut) return <LongText text={part.text ?? ""} />;
      if (part.kind === "audio" && transcriptOf(part.value) !== undefined) return <Spoken text={transcriptOf(part.value)!} />;
      return (
        <div class="json-part">
          {part.kind && <span class="muted">{visible(part.kind)}</span>}
          <JsonTree value={part.value} file={file} />
        </div>
      );
    default:
      return <JsonTree value={part} />;
  }
}

function CutNote({ part, whole }: { part: Part; whole?: LoadWhole | undefined }) {
  const [state, setState] = useState<"idle" | "loading" | "failed">("idle");
  const load = () => {
    setState("loading");
    whole?.().then(
      () => setState("idle"),
      () => setState("failed"),
    );
  };
  return (
    <div class="fold">
      <span class="muted">The beginning of {count(part.characters)} characters.</span>
      {whole && (
        <button type="button" class="link" disabled={state === "loading"} onClick={load}>
          {state === "loading" ? "Loading…" : state === "failed" ? "It could not be loaded. Again" : "Load the whole"}
        </button>
      )}
    </div>
  );
}

/** The transcript of speech. The model had the speech itself. */
function Spoken({ text }: { text: string }) {
  return (
    <div class="json-part">
      <span class="muted">spoken</span>
      <LongText text={text} />
    </div>
  );
}

function transcriptOf(value: unknown): string | undefined {
  const transcript = (value as { transcript?: unknown } | null)?.transcript;
  return typeof transcript === "string" ? transcript : undefined;
}

export function Reasoning({ text }: { text: string }) {
  if (!text) return <div class="muted">The provider does not show it.</div>;
  return <LongText text={text} markdown limit={700} lines={8} />;
}

/** The output of a tool: JSON as a tree, everything else unchanged. */
function ToolText({ text, cut, file }: { text: string; cut?: boolean | undefined; file?: string | undefined }) {
  const value = useMemo(() => (cut ? undefined : jsonIn(text)), [text, cut]);
  if (value !== undefined) return <JsonTree value={value} open={2} />;
  return text === "" ? <span class="muted">(an empty text)</span> : <LongText text={text} file={file} />;
}

function jsonIn(text: string): unknown {
  const first = text.trimStart()[0];
  if ((first !== "{" && first !== "[") || text.length > 200_000) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const FILE_NAMES = ["path", "file", "file_path", "filename", "filepath"];

/** The arguments of a tool, one by one. The content of a file has the colours of its language. */
export function Arguments({ value }: { value: unknown }) {
  if (typeof value === "string") return <LongText text={value} />;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return <JsonTree value={value} open={2} />;
  const members = Object.entries(value);
  const file = FILE_NAMES.map((name) => (value as Record<string, unknown>)[name]).find((one) => typeof one === "string");
  if (members.length === 0) return <span class="muted">no arguments</span>;
  return (
    <dl class="arguments">
      {members.map(([name, one]) => (
        <div key={name}>
          <dt>{visible(name)}</dt>
          <dd>
            <JsonTree value={one} open={1} file={fileOf(name, one, file as string | undefined)} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function fileOf(name: string, value: unknown, file: string | undefined): string | undefined {
  if (typeof value !== "string" || !value.includes("\n")) return undefined;
  if (name === "code" || name === "python") return "code.py";
  if (name === "command" || name === "cmd") return "command.sh";
  return file;
}

function ImagePart({ part }: { part: Extract<Part, { type: "image" }> }) {
  const [broken, setBroken] = useState(false);
  const address = part.data === undefined ? undefined : safeImage(`data:${part.media_type ?? "image/png"};base64,${part.data}`);
  if (address && !broken) {
    return <img class="picture" src={address} alt={`image, ${part.media_type ?? "unknown type"}`} onError={() => setBroken(true)} />;
  }
  if (part.url !== undefined) return <div class="muted">image at {visible(part.url.slice(0, 500))} (not fetched)</div>;
  if (part.data === undefined) return <div class="muted">image{part.media_type ? `, ${visible(part.media_type)}` : ""}</div>;
  return (
    <div class="muted">
      image that cannot be shown: {visible(part.media_type ?? "unknown type")}, {count(part.data.length)} characters of base64
    </div>
  );
}
