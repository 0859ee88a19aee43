// The pictures of the documentation: node pictures.mjs RUNS DIRECTORY, over the runs of examples/demo/find_a_bug.py.
import { resolve } from "node:path";
import { chromium } from "playwright-core";
import { ARGUMENTS, line, python } from "./setup.mjs";

const [runs, directory] = process.argv.slice(2).map((one) => resolve(one));
const server = python("trace_recorder", "view", runs, "--port", "0", "--no-browser", "--read-only");
const address = await line(server, /http:\S+token=[\w-]+/);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });

async function picture(name, place, ready, { dark = false, height = 860 } = {}) {
  const context = await browser.newContext({ viewport: { width: 1360, height }, deviceScaleFactor: 1.5, colorScheme: dark ? "dark" : "light" });
  const page = await context.newPage();
  await page.goto(address + place);
  await page.locator(ready).first().waitFor();
  await page.waitForFunction(() => document.fonts.status === "loaded" && !document.body.innerText.includes("Loading…"));
  await page.screenshot({ path: `${directory}/${name}.png` });
  await context.close();
}

await picture("viewer", "#/run/broken.json/call/5/changes", ".panel .message-line.changed");
await picture("viewer-dark", "#/run/mended.json/step/4", ".row.selected .tool", { dark: true });
await picture("compare", "#/compare/broken.json/mended.json", ".parting", { height: 640 });
await browser.close();
server.kill("SIGTERM");
