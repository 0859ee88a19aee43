// What the tests share: recorded runs, the server, a browser, and places for pictures.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
export const PYTHON = process.env.PYTHON ?? join(ROOT, ".venv", "bin", "python");
const PICTURES = process.env.VIEWER_SCREENSHOTS;
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

/** What a Python program of the repository prints until its end. Other tests go on. The error of one that fails has its messages. */
async function ended(...args) {
  const { stdout } = await promisify(execFile)(PYTHON, ["-m", ...args], { cwd: ROOT });
  return stdout;
}

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
  const recorded = await ended(module, directory, ...more);
  const server = python("trace_recorder", "view", directory, "--port", "0", "--no-browser");
  return { ...JSON.parse(recorded), address: await line(server, /http:\S+token=[\w-]+/) };
}

/** Write runs as one self-contained file, and return its address. */
export async function oneFile(file, ...runs) {
  await ended("trace_recorder", "view", ...runs, "-o", file, "--force");
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
    this.unusualDirectory = join(this.directory, "unusual");
    const [usual, unusual] = await Promise.all([
      served(this.runsDirectory, "tests.viewer_page.agents", "all"),
      served(this.unusualDirectory, "tests.viewer_page.unusual_runs"),
    ]);
    Object.assign(this, usual, { unusual });
    if (PICTURES) mkdirSync(PICTURES, { recursive: true });
  }

  /** The same runs and servers with another browser, because the pages of a browser have one clipboard. */
  async withBrowser() {
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
    return Object.assign(Object.create(this), { browser });
  }

  async stop() {
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

  async picture(page, name) {
    if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}.png`) });
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
