#!/usr/bin/env node
// The page of a run in headless Chromium: pages of real runs, hostile data, 100,000 steps, narrow and wide, light and dark, by keyboard,
// and axe-core's rules of accessibility. Prints `ok NAME`, `not ok NAME` or `skip NAME: why`.
//
// usage: tests/page/page_test.mjs [--hone PROGRAM] [--shots FOLDER]   (tests/page/run fetches what it needs)
import {spawn, spawnSync} from "node:child_process";
import fs from "node:fs";
import {createRequire} from "node:module";
import os from "node:os";
import path from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const given = (name, otherwise) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : otherwise);
const hone = path.resolve(given("--hone", path.join(root, "build/hone")));
const shots = given("--shots", null);
const {chromium} = createRequire(import.meta.url)(path.join(root, "third_party/playwright-core"));
const axe = fs.readFileSync(path.join(root, "third_party/axe-core/axe.min.js"), "utf8");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "hone-page-"));
const fixtures = path.join(root, "tests/fixtures/parity");
let failed = 0;

function check(name, good, found = "") {
  console.log(`${good ? "ok" : "not ok"} page: ${name}`);
  if (good) return;
  failed += 1;
  if (found !== "") console.log("  " + (typeof found === "string" ? found : JSON.stringify(found, null, 1)).slice(0, 4000).replaceAll("\n", "\n  "));
}

function run(...words) {
  const done = spawnSync(hone, words.map(String), {cwd: folder, encoding: "utf8", timeout: 300_000});
  return {code: done.status, said: done.stdout + done.stderr};
}

const small = ["--model_name_or_path", path.join(fixtures, "tiny_llama"), "--use_peft", "true", "--lora_r", 4, "--bf16", "false", "--threads", 2,
  "--logging_steps", 1, "--save_strategy", "no", "--per_device_train_batch_size", 2];
const sft = (out, steps, ...more) => run("sft", ...small, "--dataset_name", path.join(fixtures, "sft/text.jsonl"), "--max_steps", steps,
  "--max_length", 32, "--eval_strategy", "steps", "--eval_steps", 5, "--eval_dataset", path.join(fixtures, "sft/text.jsonl"), "--output_dir", out, ...more);
const grpo = (out, steps, ...more) => run("grpo", ...small, "--dataset_name", path.join(fixtures, "trl_grpo/prompts.jsonl"), "--max_steps", steps,
  "--per_device_train_batch_size", 8, "--num_generations", 4, "--max_completion_length", 12, "--reward_funcs", "length(target=6)", "repetition_penalty",
  "--beta", "0.02", "--skip_doctor", "true", "--output_dir", out, ...more);

function metricsOf(out) {
  return fs.readFileSync(path.join(folder, out, "metrics.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
}
function namesOf(out) {
  const names = new Set();
  for (const record of metricsOf(out)) {
    if ("train_runtime" in record) continue;
    for (const [name, value] of Object.entries(record)) {
      if (name === "step" || name === "epoch" || value === null) continue;
      if (name !== "performance") names.add(name);
      else for (const part of Object.keys(value)) if (part !== "steps") names.add("performance/" + part);
    }
  }
  return [...names].filter((name) => !/^eval_.*(runtime|_per_second|num_tokens)$/.test(name));
}

// A folder with metrics (an object a step) and completions, as a run leaves it.
function folderOf(name, records, completions = {}) {
  const at = path.join(folder, name);
  fs.mkdirSync(path.join(at, "completions"), {recursive: true});
  fs.writeFileSync(path.join(at, "metrics.jsonl"), records.map((one) => (typeof one === "string" ? one : JSON.stringify(one)) + "\n").join(""));
  for (const [step, rows] of Object.entries(completions)) {
    fs.writeFileSync(path.join(at, `completions/completions_${String(step).padStart(5, "0")}.jsonl`), rows);
  }
  return at;
}

let browser;
// A page with what went wrong in it: errors of the console, requests beside its own, dialogs.
async function open(file, {width = 1360, height = 900, dark = false, hash = ""} = {}) {
  const context = await browser.newContext({viewport: {width, height}, colorScheme: dark ? "dark" : "light", locale: "en-US", timezoneId: "UTC"});
  const page = await context.newPage();
  const wrong = [];
  const address = file.startsWith("http") ? file : pathToFileURL(file).href;
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && wrong.push("console: " + message.text()));
  page.on("pageerror", (error) => wrong.push("error: " + error.stack));
  page.on("dialog", (dialog) => { wrong.push("dialog: " + dialog.message()); dialog.dismiss(); });
  page.on("request", (request) => request.url().split("#")[0] !== address.split("#")[0] && !request.url().startsWith("data:") && wrong.push("request: " + request.url()));
  const begun = Date.now();
  await page.goto(address + hash);
  await page.waitForSelector("html[data-ready]");
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  return {page, wrong, took: Date.now() - begun, close: () => context.close()};
}

// axe-core runs through the debugger, which the page's policy does not hold back. Of its findings the serious and critical ones count.
async function seriousFindings(page) {
  await page.evaluate(axe + "\n;true");
  const found = await page.evaluate(() => window.axe.run(document, {resultTypes: ["violations"]}));
  return found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ") + " " + (node.any[0]?.message || "")).join("; ")}`);
}

async function shot(page, name, whole = false) {
  if (!shots) return;
  fs.mkdirSync(shots, {recursive: true});
  await page.screenshot({path: path.join(shots, name + ".png"), fullPage: whole});
}

const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

// How many pixels of a chart's canvas are drawn.
const drawn = (page, i) => page.evaluate((at) => {
  const canvas = document.querySelector(`#plot-${at} canvas`);
  if (!canvas) return 0;
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let k = 3; k < pixels.length; k += 4) count += pixels[k] > 0 ? 1 : 0;
  return count;
}, i);

async function scrollThrough(page) {
  await page.evaluate(async () => {
    for (let y = 0; y < document.body.scrollHeight; y += 400) {
      scrollTo(0, y);
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)));
    }
    scrollTo(0, 0);
  });
}

async function realRuns() {
  for (const [name, made] of [["sft", sft("runs/sft", 20, "--sample_prompts", "What is 43 + 21?", "Add 7 and 12.", "--sample_max_new_tokens", 24)], ["grpo", grpo("runs/grpo", 12)]]) {
    check(`a run of ${name} goes through`, made.code === 0, made.said);
    const file = path.join(folder, `runs/${name}/report.html`);
    check(`a run of ${name} wrote its page`, fs.existsSync(file));
    if (!fs.existsSync(file)) continue;
    for (const [look, options] of [["wide, light", {}], ["wide, dark", {dark: true}], ["narrow, light", {width: 360, height: 740}],
                                   ["narrow, dark", {width: 360, height: 740, dark: true}]]) {
      const {page, wrong, close} = await open(file, options);
      await scrollThrough(page);
      check(`${name}, ${look}: no error, no request, no dialog`, wrong.length === 0, wrong);
      check(`${name}, ${look}: nothing is wider than the window`, (await overflow(page)) <= 0, await overflow(page));
      const findings = await seriousFindings(page);
      check(`${name}, ${look}: axe-core finds nothing serious`, findings.length === 0, findings.join("\n"));
      await shot(page, `${name}-${look.replace(", ", "-")}`, true);
      if (look === "wide, light") await contents(page, name);
      await close();
    }
  }
}

async function contents(page, name) {
  const wanted = namesOf("runs/" + name);
  const series = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).runs[0].series.map((one) => one.name));
  const missing = wanted.filter((one) => !series.includes(one));
  check(`${name}: every series is in the page`, missing.length === 0 && wanted.length > 8, missing);
  const lines = await page.locator(".chart .line").count(), charts = await page.locator(".chart").count();
  check(`${name}: every series has a line of a chart`, lines === wanted.length, `${lines} lines in ${charts} charts, ${wanted.length} names: ${wanted}`);
  const blank = [];
  for (let i = 0; i < charts; ++i) if ((await drawn(page, i)) < 500) blank.push(i);
  check(`${name}: every chart is drawn`, blank.length === 0, blank);
  const table = page.locator("#values-0");
  await table.locator("summary").click();
  await table.locator("tbody tr").first().waitFor({timeout: 5000}).catch(() => {});
  const rows = await table.locator("tbody tr").count();
  check(`${name}: a chart's values are a table`, rows >= 10, rows);
  await table.locator("summary").click();
}

async function controls() {
  const file = path.join(folder, "runs/grpo/report.html");
  const {page, wrong, close} = await open(file);
  await page.locator("#plot-0").focus();
  for (const key of ["ArrowLeft", "ArrowLeft"]) await page.keyboard.press(key);
  const said = await page.locator("#plot-0").getAttribute("aria-valuetext");
  check("arrow keys read a chart's values", /^step 11: loss \S+/.test(said), said);
  await page.locator("#line-0-0").click();
  check("a line of the legend is a button that hides it", (await page.locator("#line-0-0").getAttribute("aria-pressed")) === "false");
  await page.locator("#completions-find").fill("zzzz-nothing");
  check("the search finds nothing that is not there", (await page.locator("#completions-said").textContent()).startsWith("0 of"));
  await page.locator("#completions-find").fill("");
  await page.locator("#completions-step").focus();
  await page.keyboard.press("Home");
  const first = await page.locator("#completions-where").textContent();
  check("the slider goes to the first step", first.startsWith("1"), first);
  const rows = await page.locator("table.completions tr td.text[data-name=completion]").count();
  check("the completions of a step are in the table", rows === 8, rows);
  await page.locator("#completions-find").fill("a");
  await page.locator("#theme").click();
  check("the theme can be turned", (await page.locator("html").getAttribute("data-theme")) === "dark");
  const before = await page.evaluate(() => location.hash);
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  const kept = await page.evaluate(() => [location.hash, document.documentElement.dataset.theme, document.getElementById("completions-find").value,
    document.getElementById("completions-where").textContent.split(" ")[0], document.getElementById("line-0-0").getAttribute("aria-pressed")]);
  check("the controls stay when the page is read again", kept.join("|") === [before, "dark", "a", "1", "false"].join("|"), kept);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Tab");
  check("the first Tab offers to skip to the charts", (await page.evaluate(() => document.activeElement.id)) === "skip");
  check("nothing went wrong meanwhile", wrong.length === 0, wrong);
  await close();
}

async function samples() {
  const file = path.join(folder, "runs/sft/report.html");
  const {page, wrong, close} = await open(file);
  const rows = fs.readFileSync(path.join(folder, "runs/sft/samples.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const steps = [...new Set(rows.map((row) => row.step))];
  check("samples: before step 1, at each evaluation, at the end", steps.join() === "0,5,10,15,20", steps);
  const heads = async () => (await page.locator("table.samples thead th").allTextContents()).join("|");
  check("samples: the first beside the newest", (await heads()) === "before step 1|after step 20", await heads());
  const cells = async () => page.locator("table.samples td .said").allTextContents();
  const wanted = (a, b) => [0, 1].flatMap((index) => [a, b].map((step) => rows.find((row) => row.step === step && row.index === index).completion || "(empty)"));
  const plain = (texts) => texts.join("|").replace(/\\x[0-9a-f]{2}|[^\x20-\x7e|]/g, "");
  check("samples: the completions of both steps are beside each other", plain(await cells()) === plain(wanted(0, 20)), [await cells(), wanted(0, 20)]);
  await page.locator("#samples-from").focus();
  await page.keyboard.press("ArrowRight");
  await page.locator("#samples-to").focus();
  await page.keyboard.press("Home");
  check("samples: any two steps", (await heads()) === "after step 5|before step 1", await heads());
  check("samples: their completions", plain(await cells()) === plain(wanted(5, 0)), await cells());
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  check("samples: the steps stay when the page is read again", (await heads()) === "after step 5|before step 1", await heads());
  check("samples: nothing went wrong", wrong.length === 0, wrong);
  await close();
}

async function hostile() {
  const bad = "</script><script>window.hacked=1;alert(1)</script>", image = "<img src=x onerror='window.hacked=1'>", link = "javascript:window.hacked=1";
  const name = "runs/<img src=x onerror=alert(1)>";
  const at = folderOf(name, [1, 2, 3].map((step) => ({step, epoch: step, loss: 1 / step, [`rewards/${bad}/mean`]: 1, [image]: 2, [link]: 3, __proto__x: 1,
    ["a\u2028\u2029\u202eb\u001b[31m"]: 4})).concat(["not json", "{\"step\": 4, \"loss\": "]), {
    1: Buffer.concat([bad, image, link, "\u001b[2J\u001b]0;x\u0007", "<!--", "]]>", "\u2028"].map((text) => Buffer.from(JSON.stringify(
        {step: 1, prompt: text, completion: text + " tail", [image]: 1, advantage: 0.5, note: link, truncated: false}) + "\n"))
      .concat([Buffer.from('{"step":1,"prompt":"raw ', "utf8"), Buffer.from([0xff, 0xc0, 0x80]), Buffer.from('","completion":"\xe9"}\n', "latin1")]))});
  fs.writeFileSync(path.join(at, "hone-page.json"), JSON.stringify({format: "hone-page-1", end: "finished", started: 1, total_steps: 3, start: [[image, bad]],
    example: [[bad, true], [image, false]], verdicts: [{step: 1, code: bad, level: "fail\" onclick=\"x", what: image, fix: link}]}));
  fs.writeFileSync(path.join(at, "samples.jsonl"), [0, 2].map((step) => JSON.stringify({step, index: 0, prompt: bad, asked: image,
    completion: `${bad} sample ${step} \u001b[2J`, [link]: 1, truncated: "<b>"}) + "\n").join("") + "{\"step\": 3}\n[1]\n");
  fs.writeFileSync(path.join(at, "plan.yaml"), `# hone sft, resolved.\noutput_dir: "${bad}"\nrun_name: "${image.replaceAll('"', "'")}"\n`);
  const made = run("report", name);
  check("hostile data: the page is made", made.code === 0, made.said);
  const {page, wrong, close} = await open(path.join(at, "report.html"));
  await scrollThrough(page);
  check("hostile data: no script of it runs", (await page.evaluate(() => window.hacked)) === undefined && wrong.length === 0, wrong);
  const elements = await page.evaluate(() => [document.images.length, document.scripts.length, document.querySelectorAll("a:not(.skip), iframe, object, embed, form").length]);
  check("hostile data: no element of it exists", elements.join() === "0,2,0", elements);
  const text = await page.evaluate(() => document.body.innerText);
  check("hostile data: it is shown as text", text.includes(bad + " tail") && text.includes(image) && text.includes("\\x1b[2J"), text.slice(0, 3000));
  check("hostile data: samples are text too", text.includes(bad + " sample 2 \\x1b[2J") && text.includes("2 lines could not be read"), text.slice(0, 3000));
  check("hostile data: bytes that are no UTF-8 are shown", text.includes("raw \ufffd\ufffd\ufffd"), text.slice(-3000));
  check("hostile data: damaged lines are counted", text.includes("2 lines of metrics.jsonl could not be read"), text.slice(0, 1500));
  const policy = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.hacked = 2";
    document.body.append(script);
    const button = document.createElement("button");
    button.setAttribute("onclick", "window.hacked = 3");
    button.click();
    return window.hacked;
  });
  check("hostile data: the policy holds back a script even if it came into the page", policy === undefined, policy);
  await close();
}

// A completion that is a dialogue with tools, as a run leaves it: what each turn says, what failed, and what was drawn.
async function dialogues() {
  const bad = "<img src=x onerror='window.hacked=1'>", long = "line\n".repeat(40);
  const call = (name, value) => ({type: "function", function: {name, arguments: value}});
  const messages = [{role: "assistant", content: "", reasoning_content: "I should add.", tool_calls: [call("add", {a: 2, b: 3}), call("look", {at: bad})]},
    {role: "tool", name: "add", content: long}, {role: "tool", name: "look", content: "{'error': 'gone'}"}, {role: "assistant", content: "It is 5."}];
  const rows = [{step: 1, prompt: "2 + 3?", completion: messages, calls: [{turn: 0, name: "add", failed: false}, {turn: 0, name: "look", failed: true}],
    spans: [["<tool_call>", true], ["<tool_response>", false], ["It is 5.", true]], right: 1, advantage: 0.5, truncated: false},
  {step: 1, prompt: "2 + 3?", completion: [{role: "assistant", content: "Six."}], calls: [], spans: [["Six.", true]], right: 0, advantage: -0.5, truncated: false}];
  const at = folderOf("runs/tools", [{step: 1, epoch: 1, loss: 1}], {1: rows.map((row) => JSON.stringify(row) + "\n").join("")});
  const made = run("report", "runs/tools");
  check("dialogues: the page is made", made.code === 0, made.said);
  const {page, wrong, close} = await open(path.join(at, "report.html"));
  const kinds = await page.locator(".turn").evaluateAll((all) => all.map((one) => one.className).join("|"));
  check("dialogues: turn by turn, with what failed", kinds === "turn reasoning|turn call|turn call|turn result|turn result failed|turn said|turn said", kinds);
  const tags = (await page.locator(".turn .tag").allTextContents()).join("|");
  check("dialogues: what was drawn and what was given", tags === "reasoning · drawn|calls add · drawn|calls look · drawn|add answers · given|" +
    "look answers · given · the call failed|assistant · drawn|assistant · drawn", tags);
  check("dialogues: a long result is folded", (await page.locator(".turn.result .said.cut").count()) === 1);
  const text = await page.evaluate(() => document.getElementById("completions-table").innerText);
  check("dialogues: arguments are text", text.includes('{"a":2,"b":3}') && text.includes(bad), text);
  check("dialogues: rewards and advantage beside, and no columns of the dialogue", !/calls\tspans/.test(text) && text.includes("0.5") && text.includes("advantage"), text);
  await page.locator(".spans summary").first().click();
  const drawn = (await page.locator(".spans").first().locator(".target").allTextContents()).join("|");
  check("dialogues: the mask is underlined", drawn.includes("<tool_call>") && drawn.includes("It is 5.") && !drawn.includes("<tool_response>"), drawn);
  await page.locator("#completions-find").fill("gone");
  check("dialogues: the search looks in results", (await page.locator("#completions-said").textContent()).startsWith("1 of 2"));
  const findings = await seriousFindings(page);
  check("dialogues: no error, nothing serious", wrong.length + findings.length === 0, [...wrong, ...findings]);
  await shot(page, "dialogues-wide-light", true);
  await close();
}

async function manySteps() {
  const steps = 100_000, records = [];
  for (let step = 1; step <= steps; ++step) {
    const fall = 2 * Math.exp(-step / 20_000), noise = Math.sin(step * 12.9898) * 0.2;
    records.push({step, epoch: step / 1000, loss: step === 54_321 ? 40 : 0.5 + fall + noise, grad_norm: 1 + noise, learning_rate: 2e-5 * (1 - step / steps), num_tokens: step * 4096,
      entropy: fall, reward: 1 - fall + noise, "rewards/accuracy/mean": 1 - fall, "rewards/format/mean": 1, kl: 0.01 * noise * noise, "completions/mean_length": 200 + 50 * noise,
      performance: {seconds: 0.5, steps: 1, tokens_per_second: 8000, memory_peak: 4e9, rollout_seconds: 0.3, train_seconds: 0.2}});
    if (step % 1000 === 0) records.push({step, epoch: step / 1000, eval_loss: 0.6 + fall, eval_runtime: 3});
  }
  const at = folderOf("runs/long", records);
  const begun = Date.now(), made = run("report", "runs/long"), took = Date.now() - begun;
  const size = fs.statSync(path.join(at, "report.html")).size;
  check("100,000 steps: the page is made", made.code === 0, made.said);
  check("100,000 steps: it is at most 3 MB", size <= 3e6, size);
  const {page, wrong, took: opened, close} = await open(path.join(at, "report.html"));
  console.log(`   100,000 steps, ${records.length} lines: made in ${took} ms, ${(size / 1e6).toFixed(2)} MB, open after ${opened} ms`);
  await scrollThrough(page);
  check("100,000 steps: no error", wrong.length === 0, wrong);
  const text = await page.evaluate(() => document.body.innerText);
  check("100,000 steps: the page says that it shows means", text.includes("means of neighbors"), text.slice(0, 800));
  const high = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).runs[0].series.find((one) => one.name === "loss"));
  check("100,000 steps: a peak of one step is kept", Math.max(...high.high) === 40 && high.highest.join() === "54321,40", high.highest);
  await shot(page, "long-wide-light", true);
  await close();
}

async function severalRuns() {
  sft("runs/other", 15, "--learning_rate", "0.01");
  const made = run("report", "runs/sft", "runs/other", "runs/none", "--output", "both.html");
  check("several runs: the page is made, and what is no run is left out", made.code === 0 && made.said.includes("'runs/none' is left out"), made.said);
  for (const options of [{}, {width: 360, height: 740, dark: true}]) {
    const {page, wrong, close} = await open(path.join(folder, "both.html"), options);
    await scrollThrough(page);
    const findings = await seriousFindings(page);
    const look = options.width ? "narrow" : "wide";
    check(`several runs, ${look}: no error, nothing serious, nothing too wide`, wrong.length + findings.length === 0 && (await overflow(page)) <= 0, [...wrong, ...findings, await overflow(page)]);
    await shot(page, "several-" + look, true);
    if (!options.width) {
      const text = await page.evaluate(() => document.getElementById("options").innerText);
      check("several runs: the options that differ are named", text.includes("learning_rate") && text.includes("0.01") && !text.includes("lora_r"), text);
      const lines = await page.locator("#chart-0").locator("xpath=../..").locator(".line").count();
      check("several runs: a chart has a line of each, and of its evaluation", lines === 4, lines);
      await page.locator("#show-1").click();
      const pressed = await page.locator(".chart .line[aria-pressed=false]").count();
      const of_other = await page.locator(".chart .line", {hasText: "runs/other"}).count();
      check("several runs: a run is hidden in all charts at once", pressed === of_other && pressed > 5, [pressed, of_other]);
    }
    await close();
  }
}

// A page that is open while its run goes on reads itself again, and keeps what was typed.
async function goingOn() {
  const out = path.join(folder, "runs/live");
  const words = ["sft", ...small, "--dataset_name", path.join(fixtures, "sft/text.jsonl"), "--max_steps", 1_000_000, "--max_length", 32, "--skip_doctor", "true", "--output_dir", out];
  const child = spawn(hone, words.map(String), {cwd: folder, stdio: "ignore"});
  const file = path.join(out, "report.html");
  for (let i = 0; i < 200 && !fs.existsSync(file); ++i) await new Promise((done) => setTimeout(done, 100));
  const {page, wrong, close} = await open(file);
  const step = () => page.evaluate(() => JSON.parse(document.getElementById("data").textContent).runs[0].numbers.step);
  for (let i = 0; i < 300 && (await step().catch(() => 0)) === 0; ++i) await new Promise((done) => setTimeout(done, 100));
  await page.waitForSelector("html[data-ready]");
  await page.locator("#theme").click();
  await page.evaluate(() => scrollTo(0, 300));
  const before = await step();
  let after = before;
  for (let i = 0; i < 300 && after <= before; ++i) {
    await new Promise((done) => setTimeout(done, 100));
    after = await step().catch(() => before);
  }
  await page.waitForSelector("html[data-ready]");
  const state = await page.evaluate(() => [document.documentElement.dataset.theme, Math.abs(scrollY - 300) < 60, document.activeElement.id, document.querySelector(".badge").textContent]);
  check("a page of a run that goes on reads itself again, and stays where it was", after > before && state.join() === "dark,true,theme,running", [before, after, ...state]);
  await page.locator("#pause").click();
  const paused = await step();
  await new Promise((done) => setTimeout(done, 7000));
  check("it can be paused", (await step()) === paused);
  child.kill("SIGINT");
  await new Promise((done) => child.on("exit", done));
  check("nothing went wrong while it was read again", wrong.length === 0, wrong);
  await close();
  const ended = await open(file);
  check("the page of a stopped run says so, and reads itself no more", (await ended.page.locator(".badge").textContent()) === "stopped" && (await ended.page.locator("#pause").count()) === 0);
  await ended.close();
}

async function served() {
  const child = spawn(hone, ["report", "runs/sft", "--serve"], {cwd: folder});
  let said = "";
  child.stdout.on("data", (text) => { said += text; });
  for (let i = 0; i < 100 && !said.includes("\n"); ++i) await new Promise((done) => setTimeout(done, 100));
  const address = said.match(/http:\S+/)?.[0] || "";
  check("--serve says its address, with a token", /^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}\/$/.test(address), said);
  const {page, wrong, close} = await open(address);
  check("--serve gives the page", (await page.locator(".chart").count()) > 5 && wrong.length === 0, wrong);
  check("--serve gives nothing without the token", (await fetch(new URL("/", address))).status === 404);
  child.kill("SIGINT");
  check("Ctrl-C ends it", (await new Promise((done) => child.on("exit", done))) === 0);
  await close();
}

async function main() {
  const program = process.env.CHROMIUM || ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((one) => fs.existsSync(one));
  if (!program) {
    console.log("skip page in Chromium: it is not installed (apt-get install chromium)");
    return;
  }
  browser = await chromium.launch({executablePath: program, args: ["--no-sandbox"]});
  try {
    for (const part of [realRuns, controls, samples, hostile, dialogues, manySteps, severalRuns, goingOn, served]) {
      try {
        await part();
      } catch (error) {
        check(`${part.name} goes through`, false, error.stack);
      }
    }
  } finally {
    await browser.close();
    fs.rmSync(folder, {recursive: true, force: true});
  }
  process.exitCode = failed ? 1 : 0;
}
await main();
