// A run that a real agent process is writing: followed, refused a reward, ended, rewarded; and its request sent again.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { closed, copiedAs, PYTHON, python } from "./setup.mjs";

async function started(setup) {
  const agent = python("tests.viewer_page.agents", setup.runsDirectory, "live");
  const lines = createInterface({ input: agent.stdout })[Symbol.asyncIterator]();
  const path = (await lines.next()).value;
  const turn = async () => {
    agent.stdin.write("\n");
    await lines.next();
  };
  const ended = new Promise((resolve) => agent.once("exit", resolve));
  return { agent, path, turn, ended };
}

export function liveTests(test, setup) {
  test("a running agent is followed from the list to its end, and then given a reward", async () => {
    const list = await setup().page();
    await list.locator(".runs-scroll .run-row").first().waitFor();
    const { agent, path, turn, ended } = await started(setup());
    await turn();
    await list.locator(".run-row", { hasText: "A run that is watched" }).locator(".status.running").waitFor();
    await closed(list);

    const page = await setup().run(basename(path));
    await page.locator(".row", { hasText: "This is live answer 1." }).waitFor();
    for (let number = 2; number <= 12; number += 1) await turn();
    await page.locator(".row.selected", { hasText: "This is live answer 12." }).waitFor();
    await page.waitForFunction(() => {
      const at = document.querySelector(".transcript");
      return at.scrollHeight - at.scrollTop - at.clientHeight < 80;
    });
    await page.keyboard.press("k");
    await turn();
    await page.locator(".outline-row").nth(12).waitFor();
    await page.locator(".row.selected", { hasText: "This is live answer 11." }).waitFor();
    await page.keyboard.press("f");
    await page.locator(".row.selected", { hasText: "This is live answer 13." }).waitFor();
    await page.keyboard.press("4");
    await page.getByText("The run is still being written.").waitFor();
    assert.ok(await page.getByRole("button", { name: "Add reward" }).isDisabled());
    await setup().picture(page, "live-light-1400");

    await copiesRun(page);

    agent.stdin.end();
    await ended;
    await page.locator(".run-title .status.completed").waitFor();
    await page.locator("fieldset:not([disabled])").waitFor();
    await reward(page, path);
    await closed(page);
  });
}

/** The provider still answers: the copied command and the copied program get a completion from it. */
async function copiesRun(page) {
  await page.keyboard.press("o");
  const command = await copiedAs(page, "cURL");
  assert.doesNotMatch(command, /API_KEY/);
  const environment = { ...process.env, NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" };
  const ran = spawnSync("bash", ["-c", command], { encoding: "utf8", env: environment });
  assert.equal(JSON.parse(ran.stdout).object, "chat.completion", ran.stderr);
  const program = await copiedAs(page, "Python");
  const sent = spawnSync(PYTHON, ["-c", program], { encoding: "utf8", env: environment });
  assert.match(sent.stdout, /^200 .*chat\.completion/, sent.stderr);
  await page.keyboard.press("Escape");
}

async function reward(page, path) {
  const form = page.getByRole("form", { name: "Add a reward" });
  await form.getByLabel("Reward").fill("correct");
  await form.getByLabel("Value").fill("0.5");
  await form.getByLabel("Why").fill("half of it was right");
  await form.getByRole("button", { name: "Add reward" }).click();
  await page.locator(".rewards td", { hasText: "half of it was right" }).waitFor();
  const note = page.getByRole("form", { name: "Add a note" });
  await note.getByLabel("Text").fill("to be compared");
  await note.getByRole("button", { name: "Add note" }).click();
  await page.locator(".rewards .json-leaf", { hasText: "to be compared" }).waitFor();
  const records = readFileSync(path.replace(/json$/, "jsonl"), "utf8").trim().split("\n").map((text) => JSON.parse(text));
  const added = records.find((record) => record.kind === "reward").data;
  assert.deepEqual([added.name, added.value, added.explanation], ["correct", 0.5, "half of it was right"]);
  assert.equal(records.findLast((record) => record.kind === "annotation").data.value, "to be compared");
}
