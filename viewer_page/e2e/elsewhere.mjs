// The pictures of docs/views/exports.md: node elsewhere.mjs DIRECTORY TRACE RUNS PHOENIX MLFLOW INSPECT
import { chromium } from "playwright-core";
import { ARGUMENTS, line, python } from "./setup.mjs";

const [directory, trace, runs, phoenix, mlflow, inspect] = process.argv.slice(2);
const server = python("trace_recorder", "view", runs, "--port", "0", "--no-browser", "--read-only");
const viewer = await line(server, /http:\S+token=[\w-]+/);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });

async function picture(name, address, show, width = 1280) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme: "light" });
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(address);
  await show(page);
  await page.waitForTimeout(4000);
  await page.screenshot({ path: `${directory}/${name}.png` });
  await context.close();
}

await picture("seen-viewer", `${viewer}#/run/mended.json/step/2`, (page) => page.locator(".row.selected .tool").first().waitFor());
await picture("seen-phoenix", phoenix, async (page) => {
  await page.getByText("execute_tool run_python").first().waitFor();
  await page.getByText("chat demo-1").nth(2).click();
  await page.getByText("Invocation Params").first().waitFor();
}, 1400);
await picture("seen-mlflow", `${mlflow}?selectedEvaluationId=tr-${trace}`, async (page) => {
  await page.getByText("execute_tool run_python").first().waitFor();
  await page.getByText("chat demo-1").nth(2).click();
}, 1560);
await picture("seen-inspect", inspect, async (page) => {
  await page.locator("[role=row]").nth(1).click();
  await page.getByText("list_files").first().waitFor();
});
await browser.close();
server.kill("SIGTERM");
