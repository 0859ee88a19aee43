// The page in a headless browser, over runs that real agents recorded against a local provider.
import { after, before, test } from "node:test";
import { accessibilityTests } from "./accessibility.mjs";
import { findingTests } from "./finding.mjs";
import { liveTests } from "./live.mjs";
import { longListTests } from "./long_list.mjs";
import { readingTests } from "./reading.mjs";
import { safetyTests } from "./safety.mjs";
import { searchingTests } from "./searching.mjs";
import { Setup } from "./setup.mjs";
import { unusualTests } from "./unusual.mjs";

let shared;
before(async () => {
  shared = await Setup.start();
});
after(() => shared?.stop());

const setup = () => shared;
readingTests(test, setup);
findingTests(test, setup);
safetyTests(test, setup);
searchingTests(test, setup);
longListTests(test, setup);
accessibilityTests(test, setup);
liveTests(test, setup);
unusualTests(test, setup);
