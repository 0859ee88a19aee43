// What the tests share: recorded runs, the server, a browser, and places for pictures.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
export const PYTHON = process.env.PYTHON ?? join(ROOT, ".venv", "bin", "python");
const PICTURES = process.env.VIEWER_SCREENSHOTS ?? join(ROOT, "build", "viewer-screenshots");
export const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const PATIENCE_MS = 120_000; // other checks use the processor too

/** Make assertions again and again until they pass, because the page may still draw. The last failure is thrown in the end. */
export async function eventually(assertions) {
  for (const until = Date.now() + PATIENCE_MS; ; await new Promise((done) => setTimeout(done, 50))) {
    try {
      return await assertions();
    } catch (failure) {
      if (Date.now() > until) throw failure;
    }
  }
}

/** Wait until a locator finds this many elements. */
export const hasCount = (locator, count) => eventually(async () => assert.equal(await locator.count(), count));

/** Start a Python program of the repository. */
export function python(...args) {
  const program = spawn(PYTHON, ["-u", "-m", ...args], { cwd: ROOT, stdio: ["pipe", "pipe", "inherit"] });
  programs.push(program);
  return program;
}

const programs = [];

/** The first line that a program prints and that matches. */
export async function line(program, pattern) {
  for await (const text of createInterface({ input: program.stdout })) {
    const found = pattern.exec(text);
    if (found) return found[0];
  }
  throw new Error(`the program ended without printing ${pattern}`);
}

/** Record runs by a module of the tests, and serve them: their names, and the address. */
export async function served(directory, module, ...more) {
  const recorded = spawnSync(PYTHON, ["-m", module, directory, ...more], { cwd: ROOT, encoding: "utf8" });
  if (recorded.status !== 0) throw new Error(`the runs were not recorded: ${recorded.stderr}`);
  const server = python("trace_recorder", "view", directory, "--port", "0", "--no-browser");
  return { ...JSON.parse(recorded.stdout), address: await line(server, /http:\S+token=[\w-]+/) };
}

/** Write runs as one self-contained file, and return its address. */
export function oneFile(file, ...runs) {
  const wrote = spawnSync(PYTHON, ["-m", "trace_recorder", "view", ...runs, "-o", file, "--force"], { cwd: ROOT, encoding: "utf8" });
  if (wrote.status !== 0) throw new Error(`${file} was not written: ${wrote.stderr}`);
  return pathToFileURL(file).href;
}

export class Setup {
  /** Record the runs and serve them. What was started ends if that fails. */
  static async start() {
    const setup = new Setup();
    try {
      await setup.record();
    } catch (failure) {
      await setup.stop();
      throw failure;
    }
    return setup;
  }

  async record() {
    this.directory = mkdtempSync(join(tmpdir(), "viewer-"));
    this.runsDirectory = join(this.directory, "runs");
    Object.assign(this, await served(this.runsDirectory, "tests.viewer_page.agents", "all"));
    this.unusualDirectory = join(this.directory, "unusual");
    this.unusual = await served(this.unusualDirectory, "tests.viewer_page.unusual_runs");
    this.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
    mkdirSync(PICTURES, { recursive: true });
  }

  async stop() {
    await this.browser?.close();
    for (const program of programs) program.kill("SIGTERM");
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** A page of its own, which fails the test for an error in its code. `requests` are those that it made. */
  async page({ width = 1400, dark = false, at = this.address } = {}) {
    const context = await this.browser.newContext({
      viewport: { width, height: 900 },
      colorScheme: dark ? "dark" : "light",
      permissions: ["clipboard-read", "clipboard-write"],
    });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    page.failures = [];
    page.requests = [];
    page.on("pageerror", (error) => page.failures.push(error.message));
    page.on("request", (request) => page.requests.push(request.url()));
    page.on("dialog", (dialog) => {
      page.failures.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    await page.goto(at);
    return page;
  }

  /** Open a run at a place, such as `step/2`, or at its newest step. */
  async run(id, place = "", { address = this.address, ...options } = {}) {
    const page = await this.page({ ...options, at: `${address}#/run/${id}${place && `/${place}`}` });
    await page.locator(".row").first().waitFor();
    await page.locator(".row.selected").first().waitFor();
    return page;
  }

  picture(page, name) {
    return page.screenshot({ path: join(PICTURES, `${name}.png`) });
  }
}

/** What a button of the panel copies. */
export async function copiedAs(page, name) {
  await page.getByText("Copied").waitFor({ state: "detached" });
  await page.locator(".copy-as").getByRole("button", { name }).click();
  await page.getByText("Copied").waitFor();
  return page.evaluate(() => navigator.clipboard.readText());
}

export async function closed(page) {
  await page.context().close();
  if (page.failures.length > 0) throw new Error(`errors in the page: ${page.failures.join("; ")}`);
}
