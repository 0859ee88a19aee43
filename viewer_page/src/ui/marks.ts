/** Marks every place of a text inside the transcript, without changing the page: by the browser's own highlights. */

const NAME = "found";
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
  const found = new MutationObserver(() => {
    if (wanted && !pending) pending = requestAnimationFrame(draw);
  });
  found.observe(document.body, { childList: true, subtree: true, characterData: true });
  return found;
}

function draw(): void {
  pending = 0;
  CSS.highlights.delete(NAME);
  const root = document.querySelector(".transcript");
  if (!wanted || !root) return;
  const ranges: Range[] = [];
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
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
