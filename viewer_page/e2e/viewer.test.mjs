// The page in a headless browser, over runs that real agents recorded against a local provider.
import { after, before, describe, test } from "node:test";
import { accessibilityTests } from "./accessibility.mjs";
import { findingTests } from "./finding.mjs";
import { liveTests } from "./live.mjs";
import { longListTests } from "./long_list.mjs";
import { readingTests } from "./reading.mjs";
import { safetyTests } from "./safety.mjs";
import { searchingTests } from "./searching.mjs";
import { Setup } from "./setup.mjs";
import { unusualTests } from "./unusual.mjs";

/** Two groups of tests run next to each other, because a page often waits for its server or for the test. */
describe("the page", { concurrency: 2 }, () => {
  let shared;
  before(async () => {
    shared = await Setup.start();
  });
  after(() => shared?.stop());

  const inOneBrowser = (name, ...groups) =>
    describe(name, { concurrency: 1 }, () => {
      let own;
      before(async () => {
        own = await shared.withBrowser();
      });
      after(() => own?.browser.close());
      for (const tests of groups) tests(test, () => own);
    });

  // The last of these adds a run to the list.
  inOneBrowser("usual runs", readingTests, findingTests, searchingTests, accessibilityTests, liveTests);
  inOneBrowser("hard cases", longListTests, safetyTests, unusualTests);
});
