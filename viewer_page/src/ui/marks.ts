/**
 * Marks every match of a text in the recorded texts of the transcript. It uses the browser's own highlights, so the page does not
 * change. Words of the page itself, such as labels and buttons, are not marked.
 */

const NAME = "found";
/** The elements with recorded text. */
const RECORDED = ".plain, .markdown, .code, .json-leaf, .json-name, .json-summary, .arguments dt, .tool-name, .agent-name, .mono, .excerpt";
const MOST = 2000;
let wanted = "";
let observer: MutationObserver | null = null;
let pending = 0;

export function markMatches(text: string): void {
  wanted = text.toLowerCase();
  if (!("highlights" in CSS)) return;
  observer ??= watch();
  draw();
}

function watch(): MutationObserver {
  const matchObserver = new MutationObserver(() => {
    if (wanted && !pending) pending = requestAnimationFrame(draw);
  });
  matchObserver.observe(document.body, { childList: true, subtree: true, characterData: true });
  return matchObserver;
}

function draw(): void {
  pending = 0;
  CSS.highlights.delete(NAME);
  const root = document.querySelector(".transcript");
  if (!wanted || !root) return;
  const ranges: Range[] = [];
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT, (node) =>
    node.parentElement?.closest(RECORDED) ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT,
  );
  for (let node = texts.nextNode(); node && ranges.length < MOST; node = texts.nextNode()) {
    const lower = (node.nodeValue ?? "").toLowerCase();
    for (let at = lower.indexOf(wanted); at >= 0 && ranges.length < MOST; at = lower.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, Math.min(at + wanted.length, node.nodeValue?.length ?? 0));
      ranges.push(range);
    }
  }
  CSS.highlights.set(NAME, new Highlight(...ranges));
}
