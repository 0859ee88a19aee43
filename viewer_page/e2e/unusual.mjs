// Runs that are hard to draw, in the server's page and in the one file.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { closed, copiedAs, eventually, hasCount, oneFile } from "./setup.mjs";

export function unusualTests(test, setup) {
  test("a fork is linked with the run that it continues, in the list and on both pages", async () => {
    const page = await setup().page({ at: setup().unusual.address });
    const row = page.locator(".run-row", { hasText: "forked from sub_agent.json at step 1" });
    await row.locator(".relation").getByRole("link").click();
    await page.locator(".relations", { hasText: /^fork .* at step 1$/ }).getByRole("link").click();
    await page.locator(".relations", { hasText: "forked from" }).getByRole("link", { name: "sub_agent.json" }).waitFor();
    await closed(page);
  });

  test("a run of a process is linked with the run during which the process was started", async () => {
    const page = await setup().page({ at: setup().unusual.address });
    await page.locator(".run-row", { hasText: "parent coloured.json" }).locator(".relation").getByRole("link").click();
    await page.locator(".relations", { hasText: /^child run / }).getByRole("link", { name: "child.json" }).click();
    await page.locator(".relations", { hasText: /^parent / }).getByRole("link", { name: "coloured.json" }).waitFor();
    await closed(page);
  });

  test("a replay and its calls are linked with the run and the calls that gave the answers", async () => {
    const page = await setup().page({ at: setup().unusual.address });
    const row = page.locator(".run-row", { hasText: "replay of at_1.5.json" });
    await row.locator(".task > a").click();
    await page.locator(".relations", { hasText: "replay of" }).getByRole("link", { name: "at_1.5.json" }).waitFor();
    await eventually(async () => assert.deepEqual(await page.locator(".replayed").allInnerTexts(), ["replayed from llm_1 of at_1.5.json", "replayed from llm_2 of at_1.5.json"]));
    assert.equal(await page.locator(".run-figures .calls dd").innerText(), "0, 2 replayed");
    await page.locator(".replayed").last().getByRole("link").click();
    await page.waitForURL(/at_1.5.json\/call\/llm_2/);
    await page.locator(".panel h3", { hasText: "llm_2" }).waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".relations", { hasText: /^replay / }).getByRole("link", { name: "again.json" }).click();
    await page.locator(".relations", { hasText: "replay of at_1.5.json" }).waitFor();
    await closed(page);
  });

  test("two runs whose answers are equal show what differs in their prompts and parameters: server and one file", async () => {
    const { address, cool, warm } = setup().unusual;
    const runs = [cool, warm].map((run) => join(setup().unusualDirectory, run));
    const file = await oneFile(join(setup().directory, "compared.html"), ...runs);
    for (const at of [`${address}#/compare/${cool}/${warm}`, file]) {
      const page = await setup().page({ at });
      await page.locator(".pair-changes dt", { hasText: "parameters" }).waitFor();
      const changes = await page.locator(".pair-changes").innerText();
      for (const said of ["parameters.temperature", "0.5", "1.5", "prompt", "degrees"]) assert.ok(changes.includes(said), said);
      await page.locator(".pair-changes del", { hasText: "0.5" }).first().waitFor();
      await hasCount(page.locator(".pair-changes"), 1);
      await closed(page);
    }
  });

  test("groups by server have the calls of the server, and mark the tokens of its tools as an estimate", async () => {
    const page = await setup().page({ at: setup().unusual.address });
    await page.getByRole("combobox", { name: "Group by" }).fill("server");
    const table = page.locator(".groups-tables table").first();
    await table.locator("thead", { hasText: "Tool list" }).waitFor();
    const row = await table.locator("tbody tr", { hasText: "misbehaving" }).allInnerTexts();
    assert.match(row.join(), /\s8 \(8 to 8\)\s+2 \(2 to 2\)\s+≈ [\d.]+ \(/);
    await closed(page);
  });

  test("the colours of a terminal are drawn, other escape sequences are left out, and nothing becomes HTML", async () => {
    const page = await setup().run(setup().unusual.coloured, "step/1", { address: setup().unusual.address });
    const result = page.locator(".row.selected .result");
    assert.equal(await result.locator(".plain").innerText(), [
      "FAILED tests/a.py", "green on yellow", "progress hidden colons <b onclick=x>tag</b>", "⟨ESC⟩]0;title⟨U+0007⟩after ",
    ].join("\n"));
    const looks = await result.locator(".plain span[class]").evaluateAll((all) => all.map((one) => [one.innerText, one.className, getComputedStyle(one).color]));
    assert.deepEqual(looks.map(([text, name]) => [text, name]), [
      ["FAILED", "ansi-bold ansi-fg"], ["green", "ansi-fg"], ["on yellow", "ansi-bg"], ["tag", "ansi-reverse"],
    ]);
    assert.equal(new Set(looks.map(([, , colour]) => colour)).size, 3, String(looks));
    await setup().picture(page, "coloured-light-1400");
    await page.keyboard.press("/");
    await page.keyboard.type("failed tests/a");
    await page.locator(".found", { hasText: "1 match" }).waitFor();
    await closed(page);
  });

  const files = new Map();
  const fileOf = (run) => {
    if (!files.has(run)) files.set(run, oneFile(join(setup().directory, `${run}.html`), join(setup().unusualDirectory, run)));
    return files.get(run);
  };

  for (const kind of ["server", "one file"]) {
    const opened = async (run, place = "") => {
      const { address } = setup().unusual;
      if (kind === "server") return setup().run(run, place, { address });
      const page = await setup().page({ at: `${await fileOf(run)}#/run/${run}/${place}` });
      await page.locator(".row.selected").waitFor();
      return page;
    };

    test(`code with tags, and files of any name, are drawn: ${kind}`, async () => {
      const page = await opened(setup().unusual.hardToDraw, "step/1");
      const row = page.locator(".row.selected");
      await row.locator(".tool", { hasText: "b.__proto__" }).waitFor();
      for (const said of [".new-message", ".answer"]) {
        await row.locator(said).getByRole("button", { name: "Show all" }).click();
        const blocks = await row.locator(`${said} .markdown pre`).evaluateAll((all) => all.map((one) => one.ariaLabel));
        assert.deepEqual(blocks, ["html", "xml", "svg", "js", "ts", "constructor"].map((language) => `${language} code`));
      }
      await hasCount(row.locator(".labelled.answer .hljs-comment", { hasText: "<!-- a remark -->" }), 1);
      await hasCount(row.locator(".tool", { hasText: "page.html" }).locator(".arguments .hljs-comment"), 1);
      for (const name of ["a.constructor", "b.__proto__"]) {
        await row.locator(".tool", { hasText: name }).locator(".arguments", { hasText: "<!-- a remark -->" }).waitFor();
      }
      await hasCount(page.locator(".row.selected .undrawn"), 0);
      await closed(page);
    });

    test(`a text that begins with a control character is drawn as it is: ${kind}`, async () => {
      const page = await opened(setup().unusual.hardToDraw, "step/1");
      await page.keyboard.press("3");
      await page.locator(".about", { hasText: "⟨U+0001⟩0" }).waitFor();
      await closed(page);
    });

    test(`JSON that is nested deeply is a tree that opens: ${kind}`, async () => {
      const page = await opened(setup().unusual.hardToDraw, "step/2");
      const result = page.locator(".row.selected .result").first();
      await result.getByText("[1 element]").waitFor();
      await result.locator("[aria-expanded=false]").click();
      await hasCount(result.locator(".branch"), 3);
      await page.keyboard.press("o");
      await page.getByRole("tab", { name: "Raw" }).click();
      await page.locator(".panel").getByText("chatcmpl-1").waitFor();
      await hasCount(page.locator(".row.selected .undrawn, .panel .undrawn"), 0);
      await closed(page);
    });

    test(`a killed run marks the calls that it cut off, and draws them: ${kind}`, async () => {
      const page = await opened(setup().unusual.killed, "step/3");
      const marks = page.locator(".row .labelled", { has: page.locator(".label", { hasText: "incomplete" }) });
      await marks.nth(1).waitFor();
      await eventually(async () => assert.deepEqual(await marks.locator(".content").allInnerTexts(), ["no answer is on file", "the rest of the answer is not on file"]));
      await hasCount(page.locator(".row.selected .answer", { hasText: "This answer ends in the mid" }), 1);
      await eventually(async () => {
        const titles = await page.locator(".outline-row").allInnerTexts();
        assert.deepEqual(titles.map((title) => title.includes("incomplete")), [false, true, true]);
      });
      assert.doesNotMatch(await page.locator("main, nav").allInnerTexts().then((all) => all.join()), /thinking|in progress|waiting/);
      await page.locator("rect.llm").nth(2).waitFor();
      const bars = await page.locator("rect.llm").evaluateAll((all) => all.map((one) => [one.classList.contains("open"), one.getBBox().width >= 8]));
      assert.deepEqual(bars.map(([open]) => open), [false, true, true]);
      assert.deepEqual(bars.slice(1).map(([, wide]) => wide), [true, true]);
      await page.locator("rect.llm").last().hover();
      await page.locator(".tip", { hasText: "the rest of the answer is not on file" }).waitFor();
      await page.keyboard.press("o");
      await page.getByRole("tab", { name: "Timing" }).click();
      await page.locator(".panel", { hasText: "the rest of the answer is not on file" }).waitFor();
      assert.doesNotMatch(await page.locator(".panel").innerText(), /in progress/);
      await setup().picture(page, `killed-${kind.replace(" ", "-")}-light-1400`);
      await closed(page);
    });

    test(`a sub-agent inside a step is named, and the step's head has the model of its own agent: ${kind}`, async () => {
      const page = await opened(setup().unusual.subAgent, "step/1");
      const row = page.locator(".row.selected");
      await row.locator(".step-head .figures", { hasText: "large-1" }).waitFor();
      assert.doesNotMatch(await row.locator(".step-head").innerText(), /small-1/);
      const inside = row.locator(".labelled", { has: page.locator(".label", { hasText: "sub-agent" }) });
      assert.match(await inside.innerText(), /helper.*small-1/s);
      await page.locator(".outline-row", { hasText: "I ask a helper." }).locator(".agent-name", { hasText: "helper" }).waitFor();
      await inside.getByRole("link").click();
      await page.waitForURL(/call\/2/);
      await closed(page);
    });

    test(`a side call is marked in the list of steps, in its step and in the timeline: ${kind}`, async () => {
      const page = await opened(setup().unusual.proxied, "step/1");
      await page.locator(".row.selected .step-head .figures", { hasText: /small-1.*side call/ }).waitFor();
      const titles = await page.locator(".outline-row").allInnerTexts();
      assert.deepEqual(titles.map((title) => title.includes("side call")), [true, false, false]);
      await page.keyboard.press("1");
      await page.locator("rect.llm").first().hover();
      await page.locator(".tip", { hasText: "side call" }).waitFor();
      assert.deepEqual(await page.locator("rect.llm").evaluateAll((all) => all.map((one) => one.classList.contains("side"))), [true, false, false]);
      await hasCount(page.locator(".figures", { hasText: "side call" }), 1);
      await closed(page);
    });

    test(`a tool of an MCP server shows the server, both messages on demand, and what the model did not see: ${kind}`, async () => {
      const page = await opened(setup().unusual.servers, "step/1");
      const tools = page.locator(".row.selected .tool");
      await eventually(async () => assert.deepEqual(await page.locator(".row.selected .server-head").allInnerTexts().then((all) => all.map((one) => one.replace(/\d[\d.]* m?s$/, "TIME").replace(/\s+/g, " "))), [
        "misbehaving 1.2 joined by name and arguments",
        "misbehaving 1.2 joined by name and arguments",
        "misbehaving 1.2 joined by name and arguments, 2 progress notifications",
        "misbehaving 1.2 joined by name and arguments",
        "misbehaving 1.2 joined by name and arguments",
        ...Array.from({ length: 3 }, () => "misbehaving 1.2 add, TIME"),
      ]));
      const seen = tools.filter({ hasText: "mcp__misbehaving__image" }).locator(".labelled.warning");
      assert.equal(await seen.locator(".diff del").innerText(), "\n\n[image image/png 4 characters]");
      assert.equal(await seen.locator(".diff").innerText(), "a picture\n\n[image image/png 4 characters]");
      assert.deepEqual(await tools.evaluateAll((all) => all.map((one) => one.querySelector(".labelled.warning") !== null)), [false, true, false, false, true, false]);
      const add = tools.first();
      assert.doesNotMatch(await add.innerText(), /tools\/call/);
      await add.getByRole("button", { name: "Request and answer" }).click();
      await add.getByText("tools/call").waitFor();
      const message = async (title, sign) => {
        await add.locator("section", { hasText: title }).getByRole("button").first().click();
        return eventually(async () => {
          const copied = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
          assert.ok(sign in copied);
          return copied;
        });
      };
      const request = await message("Request", "method");
      const answer = await message("Answer", "result");
      assert.deepEqual([request.method, request.params.name, request.params.arguments], ["tools/call", "add", { a: 1, b: 2 }]);
      assert.deepEqual(answer, { jsonrpc: "2.0", id: request.id, result: { content: [{ type: "text", text: "3" }], structuredContent: { total: 3 }, isError: false } });
      await seen.scrollIntoViewIfNeeded();
      await setup().picture(page, `servers-${kind.replace(" ", "-")}-light-1400`);
      await closed(page);
    });

    test(`a fork names the run that it continues: ${kind}`, async () => {
      const page = await opened(setup().unusual.fork, "");
      const origin = page.locator(".relations", { hasText: /^forked from sub_agent\.jsonl? at step 1$/ });
      await origin.waitFor();
      await hasCount(origin.getByRole("link"), kind === "server" ? 1 : 0);
      await closed(page);
    });

    test(`a replay names the run and the calls that it repeats: ${kind}`, async () => {
      const page = await opened(setup().unusual.replay, "step/2");
      const links = kind === "server" ? 1 : 0;
      const origin = page.locator(".relations", { hasText: /^replay of at_1\.5\.jsonl?$/ });
      const call = page.locator(".row.selected .replayed", { hasText: /^replayed from llm_2 of at_1\.5\.jsonl?$/ });
      await origin.waitFor();
      await call.waitFor();
      assert.deepEqual([await origin.getByRole("link").count(), await call.getByRole("link").count()], [links, links]);
      await page.keyboard.press("o");
      await page.getByRole("tab", { name: "Answer" }).click();
      await page.locator(".panel .replayed").waitFor();
      await closed(page);
    });

    test(`a copied command holds what was recorded as plain arguments, and no key for a foreign host: ${kind}`, async () => {
      const page = await opened(setup().unusual.hostileAddress, "call/1/raw");
      assert.match(await copiedAs(page, "cURL"), /^ {2}--header "Authorization: Bearer \$OPENAI_API_KEY" \\$/m);
      await page.getByLabel("Next call").click();
      const command = await copiedAs(page, "cURL");
      assert.match(command, /^[\x20-\x7e\n]+$/);
      const shown = spawnSync("bash", ["-c", `curl() { printf '%s\\0' "$@"; cat; }\n${command}`], { encoding: "utf8" });
      assert.deepEqual(shown.stdout.split("\0"), [
        ...["--silent", "--show-error", "--globoff", "--proto", "=http,https", "--request", "POST"],
        ...["--url", "-o%1A%1C%0Atouch%20'X'%0A%1B[201~%C3%BC", "--header", "Content-Type: application/json", "--data-binary", "@-"],
        '{"model":"m","messages":[{"role":"user","content":"hi, it\'s \\u001b \\u202e"}]}\n',
      ]);
      assert.match(await copiedAs(page, "Python"), /"POST", "-o%1A%1C%0Atouch%20'X'%0A%1B\[201~%C3%BC"/);
      await closed(page);
    });

    test(`a part that cannot be drawn is shown as its text, and the steps around it are drawn: ${kind}`, async () => {
      const page = await opened(setup().unusual.hardToDraw, "step/3");
      const row = page.locator(".row.selected");
      await row.getByText("This cannot be drawn (Maximum call stack size exceeded). Its text is:").waitFor();
      await row.getByRole("button", { name: "Show all" }).click();
      await row.locator(".undrawn", { hasText: "> > > a quote in quotes" }).waitFor();
      await setup().picture(page, `undrawn-${kind.replace(" ", "-")}-light-1400`);
      await page.keyboard.press("j");
      await page.locator(".row.selected", { hasText: "The end." }).waitFor();
      await closed(page);
    });
  }
}
