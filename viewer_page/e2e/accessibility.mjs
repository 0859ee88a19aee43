// axe-core finds nothing serious in any view, in light and dark; the keyboard alone reaches the content.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { closed } from "./setup.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function serious(page, part = "body") {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate((at) => globalThis.axe.run(at, { resultTypes: ["violations"] }), part);
  return violations
    .filter((one) => one.impact === "serious" || one.impact === "critical")
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(" | ")}`);
}

export function accessibilityTests(test, setup) {
  test("axe-core finds nothing serious in the views", async () => {
    for (const dark of [false, true]) {
      const list = await setup().page({ dark });
      await list.locator(".runs-scroll .run-row").nth(3).waitFor();
      await list.getByRole("combobox", { name: "Group by" }).fill("model");
      await list.locator(".groups-tables table").first().waitFor();
      assert.deepEqual(await serious(list), [], "list");
      await closed(list);
      const page = await setup().run(setup().failing, "call/6/changes", { dark });
      await page.locator(".panel ins").first().waitFor();
      assert.deepEqual(await serious(page), [], "changes");
      for (const tab of dark ? [] : ["Prompt", "Answer", "Raw", "Stream", "Timing"]) {
        await page.getByRole("tab", { name: tab }).click();
        await page.locator(".panel-body > :not(.muted)").first().waitFor();
        assert.deepEqual(await serious(page, ".panel"), [], tab);
      }
      await page.keyboard.press("Escape");
      await page.keyboard.press("G");
      for (const [key, part] of [["2", ".strip"], ["3", ".strip"], ["4", ".strip"], ["?", "dialog"]]) {
        await page.keyboard.press(key);
        await page.locator(part).waitFor();
        assert.deepEqual(await serious(page, part), [], key);
      }
      await closed(page);
      const compared = await setup().page({ dark, at: `${setup().address}#/compare/${setup().failing}/${setup().other}` });
      await compared.getByText("Here the runs part.").waitFor();
      assert.deepEqual(await serious(compared), [], "compare");
      await closed(compared);
    }
  });

  test("the keyboard alone reaches the transcript, its buttons and the panel", async () => {
    const page = await setup().run(setup().failing, "step/2");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await page.keyboard.press("Enter");
    assert.match(await page.evaluate(() => document.activeElement.className), /transcript/);
    await page.keyboard.press("e");
    await page.keyboard.press("k");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Changes");
    await page.keyboard.press("Enter");
    await page.locator(".panel").waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".panel").waitFor({ state: "detached" });
    assert.match(await page.evaluate(() => document.activeElement.id), /^row-/);
    await closed(page);
  });
}
