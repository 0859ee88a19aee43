// How long the page takes to open and to scroll, and what it holds: node e2e/timings.mjs [STEPS …] (default: 10 100 1000).
// Prints a table for results/viewer.md. The runs are recorded first, which takes longer than the measuring.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { heap, processorSeconds, residentMegabytes } from "./measuring.mjs";
import { ARGUMENTS, line, PYTHON, python, ROOT } from "./setup.mjs";

const steps = process.argv.slice(2).map(Number);
const sizes = steps.length > 0 ? steps : [10, 100, 1000];
const ROUNDS = 5;

function record(count) {
  const directory = process.env.VIEWER_RUNS ?? mkdtempSync(join(tmpdir(), "viewer-"));
  if (!process.env.VIEWER_RUNS) {
    spawnSync(PYTHON, ["-m", "tests.viewer_page.agents", directory, "long", String(count)], { cwd: ROOT, stdio: "inherit" });
  }
  const names = readdirSync(directory).filter((name) => name.endsWith(".json"));
  const name = names.find((one) => JSON.parse(readFileSync(join(directory, one), "utf8")).task === `Read ${count} files`);
  return { directory, name };
}

async function opened(browser, address, name, count) {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  await page.goto(address);
  await page.locator(".run-row").first().waitFor();
  const start = performance.now();
  await page.evaluate((place) => (location.hash = place), `#/run/${name}/step/${count}`);
  await page.locator(".row.selected", { hasText: count === 1 ? "" : "All files are read." }).waitFor();
  return { page, seconds: (performance.now() - start) / 1000 };
}

/** Scroll up in 120 frames, by so many pixels each, or else to the beginning; the times between frames. */
function scrolled(page, pixels) {
  return page.evaluate(async (by) => {
    const at = document.querySelector(".transcript");
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    at.scrollTop = at.scrollHeight;
    const height = at.scrollTop;
    const times = [];
    let before = await frame();
    for (let number = 0; number <= 120; number += 1) {
      at.scrollTop = height - number * (by ?? height / 120);
      const now = await frame();
      times.push(now - before);
      before = now;
    }
    times.sort((a, b) => a - b);
    return `${times[60].toFixed(0)} ms, ${times[Math.floor(0.95 * times.length)].toFixed(0)} ms`;
  }, pixels);
}

/** The processor's time of what the page did, as the browser counts it. */
async function pageSeconds(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find((one) => one.name === "TaskDuration").value;
}

const rows = [];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
for (const count of sizes) {
  const { directory, name } = record(count);
  const journal = statSync(join(directory, name.replace(/json$/, "jsonl"))).size / 1e6;
  const server = python("trace_recorder", "view", directory, "--port", "0", "--no-browser");
  const address = await line(server, /http:\S+token=[\w-]+/);
  const before = processorSeconds(server.pid);
  const first = await opened(browser, address, name, count);
  const [ours, theirs] = [processorSeconds(server.pid) - before, await pageSeconds(first.page)];
  await first.page.close();
  const times = [];
  let wheel;
  let fling;
  let memory;
  for (let round = 0; round < ROUNDS; round += 1) {
    const { page, seconds } = await opened(browser, address, name, count);
    times.push(seconds);
    wheel = await scrolled(page, 120);
    fling = await scrolled(page, null);
    memory = await heap(page);
    await page.close();
  }
  times.sort((a, b) => a - b);
  rows.push(
    `| ${count} | ${journal.toFixed(1)} MB | ${first.seconds.toFixed(2)} s (${ours.toFixed(2)} s, ${theirs.toFixed(2)} s) | ${times[ROUNDS >> 1].toFixed(2)} s | ` +
      `${wheel} | ${fling} | ${memory.toFixed(0)} MB | ${residentMegabytes(server.pid).toFixed(0)} MB |`,
  );
  server.kill("SIGINT");
  if (!process.env.VIEWER_RUNS) rmSync(directory, { recursive: true, force: true });
}
await browser.close();
console.log("| steps | journal | opens first | opens again | a frame: wheel | a frame: whole run | heap of the page | server |");
console.log("|---:|---:|---:|---:|---:|---:|---:|---:|");
for (const row of rows) console.log(row);
process.exit(0);
