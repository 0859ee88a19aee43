/** Small parts that many views use. */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Status } from "../data/types";

const STATUS_WORDS: Record<Status, string> = {
  running: "running",
  completed: "completed",
  failed: "failed",
  interrupted: "interrupted",
  unknown: "unknown",
};

/** The status of a run, and whether it was a success, if that is stated. */
export function StatusBadge({ status, success }: { status: Status; success?: boolean | null | undefined }) {
  const word = success === true ? "success" : success === false ? "no success" : null;
  const look = status === "completed" && success === false ? "unsuccessful" : status;
  return (
    <span class={`status ${look}`}>
      <span class="dot" aria-hidden="true" />
      {STATUS_WORDS[status] ?? "unknown"}
      {word && status === "completed" ? `, ${word}` : ""}
    </span>
  );
}

export function CopyButton({ label, text, title }: { label: string; text: () => string | Promise<string>; title?: string }) {
  const [state, setState] = useState<"idle" | "done" | "failed">("idle");
  const copy = async () => {
    try {
      await writeClipboard(await text());
      setState("done");
    } catch {
      setState("failed");
    }
    setTimeout(() => setState("idle"), 1800);
  };
  return (
    <button type="button" class="small" title={title} onClick={() => void copy()}>
      {state === "done" ? "Copied" : state === "failed" ? "Not copied" : label}
    </button>
  );
}

/** Pages from disk and in frames may have no clipboard of their own. There the old command of the browser works. */
async function writeClipboard(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    if (!copied) throw new Error("the browser did not copy");
  }
}

/** A modal dialog. Escape closes it, and the focus returns to the earlier element. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const dialogRef = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialogRef.current?.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog ref={dialogRef} role="dialog" aria-label={title} onClose={close} onClick={(event) => event.target === dialogRef.current && close()}>
      <div class="dialog">
        <header>
          <h2>{title}</h2>
          <button type="button" class="icon" aria-label="Close" onClick={close}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** A line that opens and closes a part below it. A closed part is not in the page. */
export function Fold(props: {
  title: ComponentChildren;
  open?: boolean;
  class?: string;
  children: () => ComponentChildren;
}) {
  const [open, setOpen] = useState(props.open ?? false);
  return (
    <div class={`fold-block ${props.class ?? ""} ${open ? "open" : ""}`}>
      <button type="button" class="fold-title" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span class="triangle" aria-hidden="true" />
        {props.title}
      </button>
      {open && <div class="fold-body">{props.children()}</div>}
    </div>
  );
}

const notice = signal("");
let noticeEnds: ReturnType<typeof setTimeout> | undefined;

/** Show a message at the foot of the page for a moment. */
export function say(text: string): void {
  notice.value = text;
  clearTimeout(noticeEnds);
  noticeEnds = setTimeout(() => (notice.value = ""), 1800);
}

export function Notice() {
  return (
    <div class={`notice ${notice.value ? "shown" : ""}`} role="status">
      {notice.value}
    </div>
  );
}

export function Key({ children }: { children: string }) {
  return <kbd>{children === " " ? "Space" : children}</kbd>;
}
