// Many runs: the search over all of them, its counts, and several runs in one table.
import assert from "node:assert/strict";
import { closed, hasCount } from "./setup.mjs";

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
    await setup().picture(page, "table");
    await page.locator(".table-scroll .table-cell a").first().click();
    await page.locator(".row.selected").first().waitFor();
    await page.goBack();
    await page.locator(".table-head a").nth(2).waitFor();
    await closed(page);
  });
}
