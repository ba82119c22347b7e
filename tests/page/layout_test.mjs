#!/usr/bin/env node
// The layout of a run's page, compared with a stored one: where each section and chart is, how wide and how high, and the colors, narrow
// and wide, light and dark. Boxes instead of pictures: another version of a font changes every pixel, and moves no section.
//
// usage: tests/page/layout_test.mjs [--hone PROGRAM] [--write]     --write stores what is found in tests/page/layout.json
import {spawnSync} from "node:child_process";
import fs from "node:fs";
import {createRequire} from "node:module";
import os from "node:os";
import path from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const hone = path.resolve(process.argv.includes("--hone") ? process.argv[process.argv.indexOf("--hone") + 1] : path.join(root, "build/hone"));
const {chromium} = createRequire(import.meta.url)(path.join(root, "third_party/playwright-core"));
const stored = path.join(root, "tests/page/layout.json");
const looks = {"wide, light": [1360, 900, "light"], "wide, dark": [1360, 900, "dark"], "narrow, light": [360, 740, "light"], "narrow, dark": [360, 740, "dark"]};
let failed = 0;

function check(name, good, found = "") {
  console.log(`${good ? "ok" : "not ok"} page layout: ${name}`);
  if (good) return;
  failed += 1;
  console.log("  " + (typeof found === "string" ? found : JSON.stringify(found, null, 1)).slice(0, 4000).replaceAll("\n", "\n  "));
}

// A run of which everything is given, so that only the page's own code decides where things are.
function writeRun(at) {
  const records = [];
  for (let step = 1; step <= 60; ++step) {
    const fall = Math.exp(-step / 20), noise = Math.sin(step * 12.9898) * 0.1;
    records.push({step, epoch: step / 30, loss: 0.5 + fall + noise, grad_norm: 1 + noise, learning_rate: 2e-5 * (1 - step / 60), num_tokens: step * 4096, entropy: fall,
      reward: 1 - fall + noise, "rewards/right/mean": 1 - fall, "rewards/format/mean": 0.5, kl: 0.01 * noise * noise, "completions/mean_length": 200 + 50 * noise,
      performance: {seconds: 0.5, steps: 1, tokens_per_second: 8000, memory_peak: 4e9, rollout_seconds: 0.3, train_seconds: 0.2}});
  }
  fs.mkdirSync(path.join(at, "completions"), {recursive: true});
  fs.writeFileSync(path.join(at, "metrics.jsonl"), records.map((one) => JSON.stringify(one) + "\n").join(""));
  const rows = [1, 2, 3, 4].map((n) => ({step: 60, prompt: `What is ${n} + ${n}?`, completion: `It is ${2 * n}.`, right: n % 2, format: 0.5, advantage: n % 2 ? 1 : -1, truncated: false}));
  fs.writeFileSync(path.join(at, "completions/completions_00060.jsonl"), rows.map((one) => JSON.stringify(one) + "\n").join(""));
  fs.writeFileSync(path.join(at, "hone-page.json"), JSON.stringify({format: "hone-page-1", end: "finished", started: 1_700_000_000, total_steps: 60,
    start: [["model", "a model of 135 million parameters"], ["data", "400 rows"], ["adapter", "LoRA of rank 16"]], example: [["What is 2 + 2?", false], ["It is 4.", true]],
    verdicts: [{step: 20, code: "RL-03", level: "warning", what: "half of the groups teach nothing", fix: "mix harder prompts in"}]}));
  fs.writeFileSync(path.join(at, "plan.yaml"), "# hone grpo, resolved.\noutput_dir: runs/layout\nlearning_rate: 2e-05\nmax_steps: 60\n");
}

// In the page: [what, x, y, width, height] of each section, of the first charts, and computed colors.
const measure = () => {
  const boxes = [...document.querySelectorAll("header, main > section, section.card, .chart")].map((one) => {
    const box = one.getBoundingClientRect();
    const name = one.id || one.getAttribute("aria-label") || one.querySelector("h3")?.textContent || one.tagName.toLowerCase();
    return [name, ...[box.x + scrollX, box.y + scrollY, box.width, box.height].map(Math.round)];
  });
  const color = (selector, what) => getComputedStyle(document.querySelector(selector))[what];
  return {boxes, colors: [color("body", "backgroundColor"), color("body", "color"), color("section.card", "backgroundColor"), color("h2", "color")]};
};

// x and width come from the page's grid, to the pixel; heights depend on how a font breaks lines.
function differences(found, wanted) {
  const out = [];
  const names = (boxes) => boxes.map((box) => box[0]).join(", ");
  if (names(found.boxes) !== names(wanted.boxes)) return [`the order: ${names(found.boxes)}; stored: ${names(wanted.boxes)}`];
  for (let i = 0; i < found.boxes.length; ++i) {
    const [name, x, y, width, height] = found.boxes[i], [, wantedX, wantedY, wantedWidth, wantedHeight] = wanted.boxes[i];
    if (Math.abs(x - wantedX) > 3 || Math.abs(width - wantedWidth) > 3) out.push(`${name}: x ${x}, width ${width}; stored: ${wantedX}, ${wantedWidth}`);
    if (Math.abs(height - wantedHeight) > 24 + 0.15 * wantedHeight) out.push(`${name}: height ${height}; stored: ${wantedHeight}`);
    if (Math.abs(y - wantedY) > 40 + 0.1 * wantedY) out.push(`${name}: y ${y}; stored: ${wantedY}`);
  }
  if (found.colors.join("; ") !== wanted.colors.join("; ")) out.push(`colors ${found.colors.join("; ")}; stored: ${wanted.colors.join("; ")}`);
  return out;
}

async function main() {
  const program = process.env.CHROMIUM || ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((one) => fs.existsSync(one));
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "hone-layout-"));
  const browser = await chromium.launch({executablePath: program, args: ["--no-sandbox"]});
  const found = {};
  try {
    writeRun(path.join(folder, "runs/layout"));
    const made = spawnSync(hone, ["report", "runs/layout"], {cwd: folder, encoding: "utf8"});
    check("the page is made", made.status === 0, made.stdout + made.stderr);
    for (const [look, [width, height, colorScheme]] of Object.entries(looks)) {
      const context = await browser.newContext({viewport: {width, height}, colorScheme, locale: "en-US", timezoneId: "UTC"});
      const page = await context.newPage();
      await page.goto(pathToFileURL(path.join(folder, "runs/layout/report.html")).href);
      await page.waitForSelector("html[data-ready]");
      found[look] = await page.evaluate(measure);
      await context.close();
    }
  } finally {
    await browser.close();
    fs.rmSync(folder, {recursive: true, force: true});
  }
  if (process.argv.includes("--write")) {
    const lines = Object.entries(found).map(([look, one]) => ` ${JSON.stringify(look)}: {"colors": ${JSON.stringify(one.colors)}, "boxes": [\n  ` +
      one.boxes.map((box) => JSON.stringify(box)).join(",\n  ") + "]}");
    fs.writeFileSync(stored, "{\n" + lines.join(",\n") + "\n}\n");
    return;
  }
  const wanted = JSON.parse(fs.readFileSync(stored, "utf8"));
  for (const look of Object.keys(looks)) {
    const other = differences(found[look], wanted[look]);
    check(`${look}: sections, charts and colors are where and what they were`, other.length === 0 && found[look].boxes.length > 10, other.join("\n"));
  }
  const narrow = differences(found["narrow, light"], wanted["wide, light"]), dark = differences(found["wide, dark"], wanted["wide, light"]);
  check("it tells narrow from wide, and dark from light", narrow.length > 5 && dark.length > 0, [narrow, dark]);
  process.exitCode = failed ? 1 : 0;
}
await main();
