// A list of thousands of runs: the page has the rows on the screen alone, and follows the directory.
import assert from "node:assert/strict";
import { copyFileSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { closed, eventually, served } from "./setup.mjs";

const RUNS = 2000;
const MAX_ANSWER_BYTES = 400_000;

export function longListTests(test, setup) {
  test("a list of 2,000 runs is loaded as far as it is looked at, and follows its directory", async () => {
    const directory = join(setup().directory, "many");
    const { address, last } = await served(directory, "tests.viewer_page.long_list", String(RUNS));
    const page = await setup().page({ at: "about:blank" });
    const answers = [];
    page.on("response", (response) => {
      if (response.url().includes("/api/runs?")) answers.push(response.body().then((body) => body.length, () => 0));
    });
    const row = (task) => page.locator(".runs-scroll .run-row .task a", { hasText: new RegExp(`^${task}$`) });
    const head = (text) => page.locator(".list-head", { hasText: new RegExp(`^Runs${text} in`) }).waitFor();
    const scroll = (part) => page.locator(".runs-scroll").evaluate((list, to) => list.scrollTo(0, to * list.scrollHeight), part);
    const rowsInPage = () => page.locator(".runs-scroll .run-row").count();
    await page.goto(address);
    await head("2,000");
    await row(`task ${RUNS - 1}`).waitFor();
    await scroll(0.5);
    await row(`task ${RUNS / 2 - 10}`).waitFor();
    await scroll(1);
    await row("task 0").waitFor();
    assert.ok((await rowsInPage()) < 100);

    await page.getByRole("button", { name: "Steps" }).click();
    await row(`task ${RUNS - 1}`).waitFor();
    await page.getByRole("button", { name: "Steps" }).click();
    await row("task 0").waitFor();
    await page.getByLabel("Filter by task, file or model").fill("task 123");
    await head("12 of 2,000");
    assert.equal(await rowsInPage(), 12);
    await page.getByLabel("Status").selectOption("failed");
    await head("1 of 2,000");
    await eventually(async () => assert.deepEqual(await page.getByLabel("Status").locator("option").allInnerTexts(), ["Any status", "completed (1,800)", "failed (200)"]));
    await page.getByRole("button", { name: "All runs" }).click();
    await page.getByLabel("Search all runs").last().fill("status:failed steps>=1990");
    await head("1 of 2,000");
    await row("task 1990").waitFor();
    await page.getByLabel("Search all runs").last().fill("");
    await head("2,000");

    await page.keyboard.press("Escape");
    for (const key of ["j", "j", "j", "k"]) await page.keyboard.press(key);
    await page.locator(".run-row.selected .task a", { hasText: /^task 1$/ }).waitFor();
    await followsDirectory(page, directory, { last, head, row, scroll });
    assert.ok(Math.max(...(await Promise.all(answers))) < MAX_ANSWER_BYTES);
    await setup().picture(page, "many");
    await closed(page);
  });
}

/** Runs that come, change, go or are damaged do so on the page, which is scrolled to its middle. */
async function followsDirectory(page, directory, { last, head, row, scroll }) {
  await page.getByRole("button", { name: "Started" }).click();
  await row(`task ${RUNS - 1}`).waitFor();
  await scroll(0.5);
  await row(`task ${RUNS / 2 - 10}`).waitFor();
  const [old, added] = [join(directory, last), join(directory, "run999999.json")];
  writeFileSync(added, readFileSync(old, "utf8").replace(`"task ${RUNS - 1}"`, '"task that is new"'));
  await head("2,001");
  await row(`task ${RUNS / 2 - 10}`).waitFor();
  await scroll(0);
  await row("task that is new").waitFor();
  copyFileSync(join(directory, "run000010.json"), added);
  await page.locator(".filters option", { hasText: "failed (201)" }).waitFor({ state: "attached" });
  unlinkSync(added);
  writeFileSync(old, "[");
  await head("1,999");
  await page.getByText("1 other file is no run").click();
  await page.locator(".unreadable li", { hasText: last }).waitFor();
}
