// Recorded text that tries to be more than text, other origins, and the one file that works from disk.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { closed, hasCount, oneFile } from "./setup.mjs";

export function safetyTests(test, setup) {
  test("what a model or a tool wrote is shown as text, and never executed or fetched", async () => {
    const page = await setup().run(setup().hostile, "step/1");
    await page.locator(".row", { hasText: "<iframe srcdoc='x'></iframe>" }).first().waitFor();
    await page.getByText("image that cannot be shown: image/png").waitFor();
    await page.getByText("image that cannot be shown: image/svg+xml").waitFor();
    for (const key of ["j", "j", "3"]) await page.keyboard.press(key);
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByText("The beginning of 5,000,000 characters.").waitFor();
    await page.getByRole("button", { name: "Load the whole" }).click();
    await page.getByRole("button", { name: /Show 100,000 more/ }).click();
    await setup().picture(page, "hostile-light-1400");
    await page.goto(`${page.url().split("#")[0]}#/run/${setup().hostile}/call/1/raw`);
    await page.locator(".panel", { hasText: "Request" }).waitFor();
    await page.getByRole("tab", { name: "Changes" }).click();
    assert.equal(await page.title(), "trace recorder");
    await hasCount(page.locator("script"), 2);
    await hasCount(page.locator("iframe, object, embed, [onerror]"), 0);
    const links = await page.locator("main a[href]").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
    assert.deepEqual(links.filter((one) => !/^(#|https?:)/.test(one)), []);
    const own = new URL(setup().address).origin;
    assert.deepEqual(page.requests.filter((url) => !url.startsWith(own) && !url.startsWith("data:")), []);
    const steering = await page.evaluate(() => /[\u001b\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText));
    assert.equal(steering, false);
    await closed(page);
  });

  test("a page of another origin cannot add a reward, or read a run", async () => {
    const other = createServer((_, answer) => answer.end("<title>another origin</title>")).listen(0, "127.0.0.1");
    await new Promise((resolve) => other.once("listening", resolve));
    const page = await setup().page();
    await page.locator(".run-row").first().waitFor();
    await page.goto(`http://127.0.0.1:${other.address().port}/`);
    const journal = join(setup().runsDirectory, setup().failing.replace(/json$/, "jsonl"));
    const before = readFileSync(journal, "utf8");
    const read = await page.evaluate(async ([origin, run]) => {
      const body = JSON.stringify({ name: "forged", value: 1 });
      await fetch(`${origin}/api/runs/${run}/rewards`, { method: "POST", mode: "no-cors", credentials: "include", body }).catch(() => null);
      const answer = await fetch(`${origin}/api/runs`, { credentials: "include" }).catch(() => null);
      return answer === null;
    }, [new URL(setup().address).origin, setup().failing]);
    assert.equal(read, true);
    assert.equal(readFileSync(journal, "utf8"), before);
    await closed(page);
    other.close();
  });

  test("a browser without the token, or with an old one, is told how to get the right address", async () => {
    for (const place of ["/", "/?token=old", `/api/runs/${setup().failing}`]) {
      const page = await setup().page({ at: new URL(place, setup().address).href });
      await page.getByText("the token is missing or wrong").waitFor();
      await page.getByText("It printed an address such as").waitFor();
      assert.deepEqual(page.requests.filter((url) => url.includes("/api/runs?")), []);
      await closed(page);
    }
  });

  test("one file has the whole run, works from disk, and asks for nothing", async () => {
    const file = join(setup().directory, "run.html");
    const run = join(setup().runsDirectory, setup().failing);
    const page = await setup().page({ at: await oneFile(file, run) });
    await page.locator(".row.selected", { hasText: "Let me run the tests first." }).waitFor();
    await page.keyboard.press("G");
    await page.locator(".row.selected", { hasText: "What went wrong" }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("e");
    await page.locator(".row.selected", { hasText: "FileNotFoundError" }).waitFor();
    await page.keyboard.press("h");
    await page.keyboard.press("d");
    await page.locator(".panel ins", { hasText: "Keep the unit out of it." }).waitFor();
    await page.getByRole("tab", { name: "Raw" }).click();
    await page.locator(".panel").getByText("/v1/chat/completions").waitFor();
    await page.keyboard.press("4");
    await page.getByText("This file is a copy.").waitFor();
    await setup().picture(page, "one-file-light-1400");
    assert.deepEqual(page.requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:")), []);
    await closed(page);
  });

  test("one file says so where the browser cannot open it, or it is damaged", async () => {
    const file = join(setup().directory, "run.html");
    const page = await setup().page({ at: "about:blank" });
    await page.addInitScript(() => delete globalThis.DecompressionStream);
    await page.goto(pathToFileURL(file).href);
    await page.getByText("this browser is too old to open them").waitFor();
    await closed(page);
    const damaged = join(setup().directory, "damaged.html");
    writeFileSync(damaged, readFileSync(file, "utf8").replace(/"run": "[^"]{100}/, '"run": "'));
    const other = await setup().page({ at: pathToFileURL(damaged).href });
    await other.getByText("This file is damaged:").waitFor();
    await closed(other);
  });

  test("one file works in a sandboxed frame without an address, as a notebook has it", async () => {
    const file = join(setup().directory, "run.html");
    const text = readFileSync(file, "utf8").replaceAll("&", "&amp;").replaceAll('"', "&quot;");
    const notebook = join(setup().directory, "notebook.html");
    writeFileSync(notebook, `<!doctype html><iframe sandbox="allow-scripts" width="1200" height="800" srcdoc="${text}"></iframe>`);
    const page = await setup().page({ at: pathToFileURL(notebook).href });
    const frame = page.frameLocator("iframe");
    await frame.locator(".row.selected", { hasText: "Let me run the tests first." }).waitFor();
    await frame.locator(".outline-row", { hasText: "read_file" }).click();
    await frame.locator(".row.selected", { hasText: "FileNotFoundError" }).waitFor();
    await frame.locator(".row.selected h3 a").click();
    await frame.locator(".row.selected").getByRole("button", { name: "Changes" }).click();
    await frame.locator(".panel .diff-summary").waitFor();
    await closed(page);
  });

  test("two runs are one file too", async () => {
    const file = join(setup().directory, "two.html");
    const runs = [setup().failing, setup().other].map((name) => join(setup().runsDirectory, name));
    const page = await setup().page({ at: await oneFile(file, ...runs) });
    await page.getByText("Here the runs part.").waitFor();
    await page.getByRole("link", { name: setup().other }).click();
    await page.locator(".row.selected", { hasText: "Let me run the tests first." }).waitFor();
    await closed(page);
  });

  test("one file of a hostile run executes nothing", async () => {
    const file = join(setup().directory, "hostile.html");
    const run = join(setup().runsDirectory, setup().hostile);
    const page = await setup().page({ at: await oneFile(file, run) });
    await page.locator(".row.selected").waitFor();
    assert.equal(await page.title(), "trace recorder");
    await hasCount(page.locator("script"), 2);
    await closed(page);
  });
}
