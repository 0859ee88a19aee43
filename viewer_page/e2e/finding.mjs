// Finding one's way: costs in the list, filters in the address, the zoom, what a search marks, a phone.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { closed, hasCount, line, oneFile, python } from "./setup.mjs";

const PHONE = { width: 390 };

export function findingTests(test, setup) {
  test("the list says what runs cost, as their pages do, marks estimates, and filters by them", async () => {
    const { address, givenUp, killed } = setup().unusual;
    const own = new URL(address).origin;
    const page = await setup().page({ at: address });
    const cost = page.locator(".run-row", { hasText: "Find the word" }).locator(".cost");
    await cost.filter({ hasText: /^≈ \$0\.0\d+$/ }).waitFor();
    assert.equal(await cost.getAttribute("title"), "estimated by a table of prices");
    const listed = await cost.innerText();
    await page.getByLabel("Cost from $").fill("1");
    await page.getByText("No run matches.").waitFor();
    await page.getByLabel("Cost from $").fill("0.000001");
    await page.locator(".list-head", { hasText: /^Runs2 of \d/ }).waitFor();
    await page.goto(`${own}/#/run/${givenUp}/call/1/answer`);
    await page.locator(".panel", { hasText: "estimated by a table of prices" }).waitFor();
    assert.equal(await page.locator(".run-figures .cost dd").innerText(), listed);
    await page.goto(`${own}/#/compare/${givenUp}/${killed}`);
    await page.locator(".compare-figures td", { hasText: listed }).waitFor();
    await closed(page);
    const file = await oneFile(join(setup().directory, "cost.html"), join(setup().unusualDirectory, givenUp));
    const copy = await setup().page({ at: file });
    await copy.locator(".run-figures .cost dd", { hasText: listed }).waitFor();
    await closed(copy);
  });

  test("a directory without runs says so, and a list without matches says that", async () => {
    const empty = join(setup().directory, "empty");
    mkdirSync(empty);
    const server = python("trace_recorder", "view", empty, "--port", "0", "--no-browser");
    const page = await setup().page({ at: await line(server, /http:\S+token=[\w-]+/) });
    await page.getByText("There are no runs yet.").waitFor();
    await page.goto(`${setup().address}#/?text=nothing-has-this-name`);
    await page.getByText("No run matches.").waitFor();
    await closed(page);
  });

  test("filters and the order of the list are in the address: after a reload, and on the way back", async () => {
    const page = await setup().page();
    await page.locator(".runs-scroll .run-row").nth(3).waitFor();
    await page.getByLabel("Filter by task, file or model").fill("failing");
    await page.getByLabel("With errors").check();
    await page.locator(".list-head", { hasText: "2 of 4" }).waitFor();
    const byStart = await page.locator(".runs-scroll .run-row .task a").first().getAttribute("href");
    await page.getByRole("button", { name: "Tokens" }).click();
    const isOther = (href) => document.querySelector(".runs-scroll .run-row .task a")?.getAttribute("href") !== href;
    await page.waitForFunction(isOther, byStart);
    assert.match(page.url(), /#\/\?text=failing&errors=yes&sort=-tokens$/);
    await page.locator(".list-head", { hasText: "2 of 4" }).waitFor();
    await page.locator(".runs-scroll .run-row .tokens").first().waitFor();
    const seen = () => page.locator(".runs-scroll .run-row .task a").evaluateAll((all) => all.map((one) => one.hash));
    const filtered = await seen();
    assert.equal(filtered.length, 2);
    await page.reload();
    await page.locator(".list-head", { hasText: "2 of 4" }).waitFor();
    assert.deepEqual(await seen(), filtered);
    for (const back of [() => page.goBack(), () => page.keyboard.press("l"), () => page.locator(".brand").click()]) {
      await page.locator(".runs-scroll .run-row a").first().click();
      await page.locator(".row.selected").waitFor();
      await back();
      await page.locator(".list-head", { hasText: "2 of 4" }).waitFor();
      assert.deepEqual(await seen(), filtered);
    }
    await page.getByRole("button", { name: "All runs" }).click();
    await page.locator(".list-head", { hasText: "4 in" }).waitFor();
    await closed(page);
  });

  test("the list filters by what the caller judged, and a phone has room for it", async () => {
    const page = await setup().page(PHONE);
    await page.getByLabel("Status").selectOption("no success");
    assert.match(page.url(), /#\/\?status=no\+success$/);
    const badge = page.locator(".runs-scroll .status-cell", { hasText: "no success" });
    await page.locator(".list-head", { hasText: "1 of 4" }).waitFor({ state: "attached" });
    await badge.waitFor();
    await hasCount(badge, await page.locator(".runs-scroll .run-row").count());
    assert.deepEqual(await badge.evaluateAll((all) => all.filter((at) => at.scrollWidth > at.clientWidth).length), 0);
    await closed(page);
  });

  test("the search of a run, and what is above the transcript, are in the address", async () => {
    const page = await setup().run(setup().failing, "step/2");
    await page.keyboard.press("2");
    await page.keyboard.press("/");
    await page.keyboard.type("FileNotFound");
    await page.keyboard.press("Enter");
    await page.locator(".row.selected", { hasText: "FileNotFoundError" }).waitFor();
    assert.match(page.url(), /step\/2\?show=charts&find=FileNotFound$/);
    await page.reload();
    await page.locator(".found", { hasText: /match/ }).waitFor();
    await page.locator(".chart").first().waitFor();
    assert.equal(await page.getByLabel("Search in this run").inputValue(), "FileNotFound");
    await page.locator(".row.selected").getByRole("button", { name: "Details" }).click();
    await page.locator(".panel").waitFor();
    await page.goBack();
    await page.locator(".panel").waitFor({ state: "detached" });
    assert.equal(await page.getByLabel("Search in this run").inputValue(), "FileNotFound");
    await closed(page);
  });

  test("a search marks what was recorded, and no words of the page", async () => {
    const page = await setup().run(setup().failing, "step/2");
    const search = async (text, { isMarked }) => {
      await page.getByLabel("Search in this run").fill(text);
      await page.waitForFunction(
        ([wanted, isMarked]) =>
          document.querySelector(".found")?.innerText !== "searching…" &&
          location.hash.endsWith(`find=${wanted}`) &&
          (CSS.highlights.get("found")?.size ?? 0) > 0 === isMarked,
        [text, isMarked],
      );
    };
    for (const word of ["Changes", "Details", "messages"]) {
      await search("missing.py", { isMarked: true }); // so that the marks of the next search are seen to go
      assert.ok(await page.evaluate(() => [...CSS.highlights.get("found")].every((range) => range.startContainer.parentElement.closest(".label, button, .step-head, .prompt-line, .fold") === null)));
      await search(word, { isMarked: false });
    }
    await closed(page);
  });

  test("the zoomed timeline stays at the selected step", async () => {
    const page = await setup().run(setup().failing, "step/8");
    await page.locator(".now").waitFor(); // it is drawn once the width is known
    const place = () => page.evaluate(() => {
      const [line, view] = [document.querySelector(".now").getBoundingClientRect(), document.querySelector(".lane-bars").getBoundingClientRect()];
      return { x: Math.round(line.left - view.left), inSight: line.left >= view.left && line.left <= view.right };
    });
    const before = await place();
    for (let times = 0; times < 3; times += 1) {
      await page.getByLabel("Zoom in").click();
      const now = await place();
      assert.ok(now.inSight && Math.abs(now.x - before.x) <= 2, JSON.stringify([before, now]));
    }
    await page.keyboard.press("g");
    await page.locator(".row.selected h3", { hasText: "Step 1" }).waitFor();
    assert.ok((await place()).inSight);
    for (let times = 0; times < 3; times += 1) await page.getByLabel("Zoom out").click();
    assert.ok((await place()).inSight);
    await closed(page);
  });

  test("the charts say of what their top is", async () => {
    const page = await setup().run(setup().failing, "step/1");
    await page.keyboard.press("2");
    await page.locator("figcaption", { hasText: /^Contextup to [\d.]+k tokens in a prompt$/ }).waitFor();
    await page.locator("figcaption", { hasText: /^Tokensup to [\d.]+k a call$/ }).waitFor();
    await page.locator(".chart", { hasText: "Context" }).locator("svg").hover({ position: { x: 5, y: 30 } });
    await page.locator("figcaption", { hasText: /^Contextcall 1: [\d,]+ tokens, 2 messages$/ }).waitFor();
    await page.mouse.move(5, 5);
    await page.setViewportSize({ width: 390, height: 800 });
    const cut = () => page.locator(".chart figcaption").evaluateAll((all) =>
      all.filter((one) => [one, ...one.children].some((part) => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0)).length);
    assert.equal(await cut(), 0);
    await closed(page);
  });

  test("on a phone the head of a run is one line while it is scrolled, and comes back", async () => {
    const page = await setup().run(setup().failing, "step/1", PHONE);
    await page.waitForFunction(() => !document.body.innerText.includes("Loading…"));
    const height = () => page.locator(".transcript").evaluate((at) => at.clientHeight);
    const whole = await height();
    await page.mouse.move(200, 700);
    await page.mouse.wheel(0, 400);
    await page.locator(".small-head").waitFor();
    assert.ok((await height()) > whole + 200, `${whole} and ${await height()}`);
    await setup().picture(page, "scrolled-light-390");
    await page.getByLabel("Show the head of the run").click();
    await page.getByLabel("Search in this run").waitFor();
    await page.mouse.move(200, 700);
    await page.mouse.wheel(0, 200);
    await page.getByLabel("Search in this run").waitFor({ state: "hidden" });
    await page.keyboard.press("/");
    await page.keyboard.type("a");
    assert.equal(await page.getByLabel("Search in this run").inputValue(), "a");
    await page.keyboard.press("Escape");
    await page.mouse.wheel(0, 300);
    await page.getByLabel("Search in this run").waitFor({ state: "hidden" });
    await page.mouse.wheel(0, -9000);
    await page.locator(".small-head").waitFor({ state: "detached" });
    assert.equal(await height(), whole);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390);
    await page.getByRole("button", { name: "Changes" }).first().click();
    const panel = await page.locator(".panel").boundingBox();
    const close = await page.getByLabel("Close the panel").boundingBox();
    assert.deepEqual([panel.x, panel.y, panel.width], [0, 0, 390]);
    assert.ok(close.x > 340 && close.y < 30, `the button is at ${close.x}, ${close.y}`);
    await closed(page);
  });
}
