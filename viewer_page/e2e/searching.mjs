// Many runs: the search over all of them, its counts, and several runs in one table.
import assert from "node:assert/strict";
import { closed, eventually, hasCount } from "./setup.mjs";

export function searchingTests(test, setup) {
  test("a search over all runs shows those that match, and counts that narrow it", async () => {
    const page = await setup().page();
    await page.locator(".runs-scroll .run-row").nth(3).waitFor();
    const all = await page.locator(".runs-scroll .run-row").count();
    const search = page.getByRole("searchbox", { name: "Search all runs" });
    await search.fill("calls>0");
    await page.locator(".run-counts dt", { hasText: "status" }).waitFor();
    const tool = page.locator(".run-counts > div", { hasText: "tool" }).locator("dd").last();
    const [name, number] = [await tool.getByRole("button").innerText(), Number(await tool.locator(".muted").innerText())];
    await tool.getByRole("button").click();
    assert.equal(await search.inputValue(), `calls>0 tool:${name}`);
    await page.waitForFunction((some) => document.querySelectorAll(".runs-scroll .run-row").length === some, number);
    assert.ok(number < all);
    assert.match(decodeURIComponent(page.url()), /q=calls>0\+tool:/);
    await setup().picture(page, "search");
    await search.fill("nofield:x");
    await page.locator(".run-search .warn", { hasText: "there is no field 'nofield'" }).waitFor();
    await search.fill("");
    await page.waitForFunction((most) => document.querySelectorAll(".runs-scroll .run-row").length === most, all);
    await closed(page);
  });

  test("three runs stand in one table, step by step", async () => {
    const page = await setup().page();
    await page.locator(".runs-scroll .run-row").nth(3).waitFor();
    const boxes = page.locator(".runs-scroll .run-row input[type=checkbox]");
    for (const at of [0, 1, 2]) await boxes.nth(at).check();
    await page.getByRole("button", { name: "Table" }).click();
    await page.locator(".table-scroll .table-cell a").first().waitFor();
    await hasCount(page.locator(".table-head a"), 3);
    const head = await page.locator(".table-head > *").nth(1).innerText();
    const [, model, status, cost, time] = head.split("\n");
    assert.ok(model && status && cost && time, head);
    await setup().picture(page, "table");
    await page.locator(".table-scroll .table-cell a").first().click();
    await page.locator(".row.selected").first().waitFor();
    await page.goBack();
    await page.locator(".table-head a").nth(2).waitFor();
    await page.setViewportSize({ width: 390, height: 844 });
    const second = await page.locator(".table-head > *").nth(2).boundingBox();
    assert.ok(second.x + second.width <= 390, "a phone has room for two runs");
    await setup().picture(page, "table-phone");
    await closed(page);
  });

  test("groups of the listed runs have the numbers of the server, and follow the filters", async () => {
    const page = await setup().page();
    await page.getByRole("combobox", { name: "Group by" }).fill("task");
    const table = page.locator(".groups-tables table").first();
    await table.waitFor();
    const shown = await table.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [row.children[0].textContent.slice(0, 59), row.children[1].textContent]));
    const { groups } = await page.evaluate(() => fetch("api/groups?by=task").then((answer) => answer.json()));
    assert.deepEqual(shown, groups.map(({ key, runs }) => [key.task.slice(0, 59), String(runs)]));
    assert.ok(groups.length > 1);
    await page.getByRole("searchbox", { name: "Search all runs" }).fill(`task:"${groups[0].key.task.slice(0, 20)}"`);
    await eventually(async () => assert.ok((await table.locator("tbody tr").count()) < groups.length));
    await page.getByRole("combobox", { name: "and by" }).fill("model");
    await page.locator(".groups-tables caption", { hasText: "Tokens: medians" }).waitFor();
    await setup().picture(page, "groups");
    await page.getByRole("combobox", { name: "Group by" }).fill("nothing");
    await page.locator(".groups .warn", { hasText: "runs cannot be grouped by 'nothing'" }).waitFor();
    await closed(page);
  });
}
