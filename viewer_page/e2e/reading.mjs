// Reading recorded runs: the list, the transcript, keys, search, what changed in a prompt, the panel, comparing.
import assert from "node:assert/strict";
import { closed, hasCount } from "./setup.mjs";

const selected = (page) => page.locator(".row.selected h3").first();

async function selects(page, text) {
  await page.locator(".row.selected h3", { hasText: new RegExp(`^${text}$`) }).waitFor();
}

export function readingTests(test, setup) {
  test("the list filters and sorts runs, and opens one by the keyboard", async () => {
    const page = await setup().page();
    const rows = page.locator(".runs-scroll .run-row");
    await rows.nth(3).waitFor();
    await setup().picture(page, "list-light-1400");
    await page.keyboard.press("/");
    await page.keyboard.type("failing gpt-5-mini");
    await page.locator(".list-head", { hasText: "1 of 4" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "All runs" }).click();
    await page.getByLabel("With errors").check();
    await page.locator(".list-head", { hasText: "2 of 4" }).waitFor();
    await page.getByLabel("With errors").uncheck();
    await page.getByLabel("Model", { exact: true }).selectOption("gpt-5");
    await page.locator(".list-head", { hasText: "1 of 4" }).waitFor();
    await page.getByLabel("Model", { exact: true }).selectOption("");
    await page.getByRole("button", { name: "Tokens" }).click();
    await rows.first().filter({ hasText: "script" }).waitFor();
    await page.getByRole("button", { name: "Tokens" }).click();
    await rows.first().filter({ hasNotText: "script" }).waitFor();
    await page.locator("h1").click();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.locator(".row").first().waitFor();
    assert.match(page.url(), /#\/run\//);
    await closed(page);
  });

  test("a run that ended well opens at its beginning, with what its tools were given in the list of steps", async () => {
    const page = await setup().run(setup().failing);
    await selects(page, "Step 1");
    assert.equal(await page.locator(".transcript").evaluate((at) => at.scrollTop), 0);
    const titles = await page.locator(".outline-row .title").allInnerTexts();
    assert.deepEqual(titles.slice(0, 4), ["run_tests tests", "read_file amounts.py, read_file missing.py", "ask_reviewer Is Decimal(text) enough?", "write_file amounts.py"]);
    await closed(page);
  });

  test("a run without success opens at what failed, and one that was interrupted where it stopped", async () => {
    const { address, givenUp, killed: interrupted } = setup().unusual;
    const failed = await setup().run(givenUp, "", { address });
    await failed.locator(".row.selected.failed", { hasText: "I look for two." }).waitFor();
    await closed(failed);
    const killed = await setup().run(interrupted, "", { address });
    await selects(killed, "Step 3");
    await closed(killed);
  });

  test("the newest step has markdown, tables and code", async () => {
    const page = await setup().run(setup().failing, "step/9");
    await selects(page, "Step 9");
    const row = page.locator(".row.selected");
    await row.getByRole("heading", { name: "What went wrong" }).waitFor();
    await hasCount(row.locator("table tbody tr"), 2);
    assert.equal(await row.locator("pre.code .hljs-keyword").first().innerText(), "def");
    assert.equal(await row.locator("a", { hasText: "the documentation" }).getAttribute("rel"), "noopener noreferrer nofollow");
    await page.locator("article", { hasText: "This is the coverage." }).locator("img.picture").waitFor();
    await closed(page);
  });

  test("the newest step of a longer run is on screen when all that is above it has come", async () => {
    const page = await setup().run(setup().short, "step/10");
    await page.locator(".row.selected", { hasText: "All files are read." }).waitFor();
    await page.locator("article", { hasText: "src/module_8.py" }).getByText("line_11 = 77").waitFor();
    await page.waitForFunction(() => document.querySelector(".row.selected").getBoundingClientRect().bottom <= innerHeight + 1);
    await closed(page);
  });

  test("keys go to steps, errors and tools, and a link leads back to the step", async () => {
    const page = await setup().run(setup().failing, "step/1");
    await selects(page, "Step 1");
    await page.keyboard.press("e");
    await selects(page, "Step 2");
    await page.locator(".row.selected", { hasText: "FileNotFoundError" }).locator(".tool.failed").waitFor();
    await setup().picture(page, "error-light-1400");
    assert.match(page.url(), /step\/2$/);
    await page.keyboard.press("e");
    await page.getByText("No further error").waitFor();
    await page.keyboard.press("t");
    await selects(page, "Step 3");
    await page.keyboard.press("j");
    await selects(page, "Step 6");
    await page.keyboard.press("k");
    await selects(page, "Step 3");
    await page.reload();
    await selects(page, "Step 3");
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("next error").waitFor();
    await setup().picture(page, "keys-light-1400");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await closed(page);
  });

  test("the search finds text inside a closed sub-agent, and opens it", async () => {
    const page = await setup().run(setup().failing, "step/1");
    await hasCount(page.locator(".branch [aria-expanded=true]"), 0);
    await page.keyboard.press("/");
    await page.keyboard.type("callers pass a currency");
    await page.locator(".hits li").first().waitFor();
    await setup().picture(page, "search-light-1400");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    await selects(page, "Step (3|5)");
    await page.keyboard.press("/");
    await page.keyboard.type("I look at the callers");
    await page.locator(".found", { hasText: "match" }).waitFor();
    await page.keyboard.press("Enter");
    await selects(page, "Step 4");
    await hasCount(page.locator(".branch [aria-expanded=true]"), 1);
    await closed(page);
  });

  test("the changes of a prompt show what was edited word by word, and other parameters and tools", async () => {
    const page = await setup().run(setup().failing, "step/1");
    await page.keyboard.press("h");
    await selects(page, "Step 6");
    await page.locator(".row.selected .rewritten", { hasText: "2 changed" }).waitFor();
    await page.keyboard.press("d");
    const panel = page.locator(".panel");
    await panel.locator("ins", { hasText: "Keep the unit out of it." }).waitFor();
    await panel.locator("del", { hasText: "test_1 PASSED" }).first().waitFor();
    assert.match(await panel.locator(".diff-summary").innerText(), /5 as before, 2 added, 2 changed/);
    await setup().picture(page, "changes-light-1400");
    await page.getByLabel("Next call").click();
    await page.getByLabel("Next call").click();
    await panel.locator(".differences", { hasText: "temperature" }).waitFor();
    await panel.locator(".differences", { hasText: "ask_reviewer" }).locator(".removed").waitFor();
    await page.keyboard.press("Escape");
    await panel.waitFor({ state: "detached" });
    await closed(page);
  });

  test("the panel has the exact prompt, the raw JSON, the stream with its times, and every attempt", async () => {
    const page = await setup().run(setup().failing, "call/2/prompt");
    const panel = page.locator(".panel");
    await panel.getByText("4 messages").waitFor();
    await panel.locator(".message-head", { hasText: "system" }).click();
    await panel.getByText("You fix Python projects").waitFor();
    await panel.getByRole("tab", { name: "Raw" }).click();
    await panel.getByText("/v1/chat/completions").waitFor();
    await panel.getByRole("tab", { name: "Stream" }).click();
    await panel.locator(".event", { hasText: "[DONE]" }).waitFor();
    assert.match(await panel.locator(".event .time").first().innerText(), /^\+[\d.]+ (ms|s)$/);
    await panel.locator(".event").first().click();
    await panel.getByText("chat.completion.chunk").first().waitFor();
    await setup().picture(page, "stream-light-1400");
    await panel.getByRole("tab", { name: "Timing" }).click();
    await panel.locator(".attempt-view.bad", { hasText: "HTTP 503" }).waitFor();
    await panel.locator(".attempt-view", { hasText: "Attempt 2" }).getByText(/^after a pause of /).waitFor();
    await page.getByRole("tab", { name: "Timing" }).press("ArrowLeft");
    assert.equal(await panel.getByRole("tab", { name: "Stream" }).getAttribute("aria-selected"), "true");
    await closed(page);
  });

  test("the timeline and the charts are drawn, and a click on them goes to the step", async () => {
    const page = await setup().run(setup().failing, "step/9");
    await page.locator("rect.attempt").waitFor();
    await hasCount(page.locator(".lane-names > div"), 2);
    await hasCount(page.locator("rect.attempt"), 1);
    await page.locator("rect.tool").first().hover();
    await page.locator(".tip", { hasText: "run_tests" }).waitFor();
    await page.locator("rect.tool").first().click();
    await selects(page, "Step 1");
    await page.keyboard.press("2");
    await page.locator(".chart").nth(3).waitFor();
    await page.locator(".chart svg").first().hover({ position: { x: 5, y: 30 } });
    await page.locator("figcaption", { hasText: "call 1:" }).first().waitFor();
    await setup().picture(page, "charts-light-1400");
    await closed(page);
  });

  test("two runs stand side by side, and part where they part", async () => {
    const page = await setup().page();
    const rows = page.locator(".runs-scroll .run-row");
    await rows.nth(3).waitFor();
    await rows.filter({ hasText: /gpt-5-mini/ }).filter({ hasText: "Fix the failing" }).getByRole("checkbox").check();
    await rows.filter({ hasNotText: "gpt-5-mini" }).getByRole("checkbox").check();
    await page.locator("h1").click();
    await page.keyboard.press("c");
    await page.getByText("Here the runs part.").waitFor();
    await page.getByText("different tool calls").first().waitFor();
    await page.getByText(/steps the same/).first().waitFor();
    await page.locator(".pair.different ins").first().waitFor();
    await page.keyboard.press("e");
    await page.locator(".compare-row.selected .pair.different").waitFor();
    await setup().picture(page, "compare-light-1400");
    await page.locator(".side header a").first().click();
    await page.locator(".row.selected").waitFor();
    await closed(page);
  });

  test("dark colours and 700 pixels work, and nothing is wider than the window", async () => {
    const views = [["list", ""], ["run", `#/run/${setup().failing}/step/2`], ["panel", `#/run/${setup().failing}/call/6/changes`]];
    for (const [name, place] of views) {
      const page = await setup().page({ at: setup().address + place, dark: true });
      await page.locator({ list: ".runs-scroll .run-row", run: ".row.selected", panel: ".panel ins" }[name]).first().waitFor();
      await setup().picture(page, `${name}-dark-1400`);
      await page.setViewportSize({ width: 700, height: 900 });
      await setup().picture(page, `${name}-dark-700`);
      await page.emulateMedia({ colorScheme: "light" });
      await setup().picture(page, `${name}-light-700`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 700, `${name} is ${wide} pixels wide`);
      await closed(page);
    }
  });

  test("the switch changes the colours, and they stay", async () => {
    const page = await setup().page();
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await background(), "rgb(255, 255, 255)");
    await page.getByLabel("Dark colours").click();
    assert.notEqual(await background(), "rgb(255, 255, 255)");
    await page.reload();
    assert.notEqual(await background(), "rgb(255, 255, 255)");
    await hasCount(selected(page), 0);
    await closed(page);
  });
}
