// What a long list costs: node e2e/list_timings.mjs DIRECTORY … [--query QUERY]. Prints a table for results/viewer.md.
// `python -m benchmarks.many_runs` makes directories. Times of the clock are beside those of the server's processor.
import { chromium } from "playwright-core";
import { ARGUMENTS, line, python } from "./setup.mjs";
import { heap, processorSeconds, residentMegabytes } from "./measuring.mjs";

const IDLE_SECONDS = 60;
const places = process.argv.slice(2).filter((argument) => !argument.startsWith("--query="));
const query = process.argv.slice(2).find((argument) => argument.startsWith("--query="))?.slice(8) ?? "is:failed tool:bash>3";

/** Do something, and return how long it took: by the clock, and of the server's processor. */
async function timed(server, act) {
  const [began, before] = [performance.now(), processorSeconds(server.pid)];
  await act();
  return `${((performance.now() - began) / 1000).toFixed(2)} s (${(processorSeconds(server.pid) - before).toFixed(2)} s)`;
}

async function measured(browser, directory) {
  const server = python("trace_recorder", "view", directory, "--port", "0", "--no-browser");
  const address = await line(server, /http:\S+token=[\w-]+/);
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  page.setDefaultTimeout(600_000);
  const answers = [];
  page.on("response", (response) => response.url().includes("/api/runs?") && answers.push(response.body().then((body) => body.length, () => 0)));
  const task = page.locator(".runs-scroll .run-row .task a").first();
  const first = await timed(server, async () => {
    await page.goto(address);
    await task.waitFor();
  });
  const rest = await timed(server, () => page.waitForFunction(() => !/reading [\d,]+ more run/.test(document.querySelector(".list-head").innerText)));
  const total = (await page.locator(".list-head").innerText()).match(/([\d,]+) in /)[1];
  await page.waitForTimeout(5000);
  answers.length = 0;
  const before = processorSeconds(server.pid);
  await page.waitForTimeout(IDLE_SECONDS * 1000);
  const idle = processorSeconds(server.pid) - before;
  const sizes = await Promise.all(answers);
  const jump = await timed(server, async () => {
    await page.locator(".runs-scroll").evaluate((list) => list.scrollTo(0, list.scrollHeight / 2));
    await page.waitForFunction(() => {
      const rows = [...document.querySelectorAll(".runs-scroll .run-row")];
      return rows.some((row) => Number(row.dataset.index) > 1000) && rows.every((row) => row.querySelector(".task a"));
    });
  });
  const search = await timed(server, async () => {
    await page.locator("#run-search").fill(query);
    await page.locator(".run-counts").waitFor();
    await page.waitForFunction(() => !document.querySelector(".run-search").innerText.includes("searching"));
  });
  const bytes = `${Math.max(...sizes).toLocaleString("en-US")} B, ${sizes.length} polls`;
  const memory = `${residentMegabytes(server.pid).toFixed(0)} MB, page ${(await heap(page)).toFixed(0)} MB`;
  const row = [total, first, rest, `${((100 * idle) / IDLE_SECONDS).toFixed(1)} %`, bytes, jump, search, memory];
  await page.close();
  server.kill("SIGINT");
  return `| ${row.join(" | ")} |`;
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
console.log("| runs | first rows | the rest | an open tab | the largest poll | a jump to the middle | a search | memory |");
console.log("|---:|---:|---:|---:|---:|---:|---:|---:|");
for (const place of places) console.log(await measured(browser, place));
await browser.close();
process.exit(0);
