// The sections beside charts and completions: the runs' numbers, the data, the doctor's verdicts, the options.

function section(id, title, ...children) {
  return el("section", {class: "card", id, "aria-labelledby": id + "-head"}, el("h2", {id: id + "-head", tabindex: "-1"}, title), children);
}

function seriesOf(run, ...names) {
  for (const name of names) {
    const found = run.series.find((one) => one.name === name);
    if (found) return found;
  }
  return null;
}

// [name, value, what is said of it] of a run, in the order of importance.
function results(run) {
  const out = [];
  const add = (name, series, best, format = number) => {
    if (!series?.last) return;
    const words = series.count > 1 && best ? `best ${format(best[1])} at step ${whole(best[0])}` : "";
    out.push([name, format(series.last[1]), words]);
  };
  const reward = seriesOf(run, "reward", "objective/scores");
  add("reward", reward, reward?.highest);
  const score = seriesOf(run, "eval_reward", "eval_objective/scores");
  add("reward, evaluation", score, score?.highest);
  const right = seriesOf(run, "rewards/accuracies", "accuracy");
  add("preferred side is right", right, right?.highest);
  const loss = seriesOf(run, "loss");
  add("loss", loss, reward ? null : loss?.lowest);  // that of a policy gradient has no best
  for (const evaluated of run.series.filter((one) => /^eval_(.+_)?loss$/.test(one.name))) {
    const set = evaluated.name.slice(5, -5);
    add("loss, evaluation" + (set ? " " + set : ""), evaluated, reward ? null : evaluated.lowest);
  }
  const memory = seriesOf(run, "performance/memory_peak");
  if (memory?.highest) out.push(["memory, peak", bytes(memory.highest[1]), ""]);
  const numbers = run.numbers;
  if (numbers.tokens_per_second) out.push(["tokens a second", number(Math.round(numbers.tokens_per_second)), "mean of the run"]);
  const time = numbers.step_seconds + numbers.evaluation_seconds + numbers.save_seconds;
  if (time > 0) out.push(["time", seconds(time), numbers.evaluation_seconds > 0 ? `evaluations ${seconds(numbers.evaluation_seconds)}` : ""]);
  return out;
}

const states = {running: "running", finished: "finished", stopped: "stopped", failed: "ended with an error", killed: "was killed"};

function badge(run) {
  return el("span", {class: "badge " + run.state}, states[run.state] || run.state);
}

function progress(run) {
  const done = run.numbers.step, all = run.total_steps;
  const text = all ? `step ${whole(done)} of ${whole(all)}` : `step ${whole(done)}`;
  if (!all) return el("span", {class: "steps"}, text);
  return el("span", {class: "steps"}, el("progress", {max: all, value: Math.min(done, all), "aria-label": "Steps of " + run.name}), text);
}

// What the page leaves out, and what happened to the run.
function notesOf(run) {
  const out = [...run.notes];
  if (run.resumed_at.length) out.push("Resumed after step " + run.resumed_at.map(whole).join(", ") + ".");
  if (run.numbers.skipped) out.push(`${plural(run.numbers.skipped, "line")} of metrics.jsonl could not be read and ${run.numbers.skipped === 1 ? "is" : "are"} left out.`);
  const most = Math.max(0, ...run.series.map((one) => one.count));
  const reduced = run.series.filter((one) => one.low);
  if (reduced.length) {
    const points = Math.max(...reduced.map((one) => one.mean.length));
    out.push(`Up to ${whole(most)} values a line are drawn as ${whole(points)} means of neighbors; the shaded range is from their lowest to their highest value. metrics.jsonl has all of them.`);
  }
  return out;
}

function notesElement(list) {
  return list.length ? el("ul", {class: "notes"}, list.map((note) => el("li", {}, note))) : null;
}

function overview() {
  if (!several) {
    const run = runs[0];
    return el("section", {class: "overview", "aria-label": "Results"},
      el("dl", {class: "tiles"}, results(run).map(([name, value, words]) => el("div", {class: "tile"}, el("dt", {}, name),
        el("dd", {}, el("span", {class: "big"}, value), words ? el("span", {class: "words"}, words) : null)))), notesElement(notesOf(run)));
  }
  const names = [...new Set(runs.flatMap((run) => results(run).map(([name]) => name)))];
  const rows = runs.map((run, r) => {
    const values = new Map(results(run).map(([name, value, words]) => [name, [value, words]]));
    const box = el("input", {type: "checkbox", id: "show-" + r, checked: !keptSet("hide").has(run.name), onchange: () => page.toggleRun(r)});
    return el("tr", {}, el("th", {scope: "row"}, el("label", {for: "show-" + r, class: "check"}, box,
        el("span", {class: "mark", "data-color": r, "aria-hidden": "true"}), run.name)),
      el("td", {}, badge(run)), el("td", {}, progress(run)),
      names.map((name) => el("td", {class: "number"}, values.get(name)?.[0] ?? "", values.get(name)?.[1] ? el("span", {class: "words"}, values.get(name)[1]) : null)));
  });
  return section("runs", "Runs",
    el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs and their results"},
      el("table", {}, el("caption", {class: "hidden"}, "Runs and their results"),
        el("thead", {}, el("tr", {}, ["run, shown", "state", "steps", ...names].map((name, i) => el("th", {scope: "col", class: i > 2 ? "number" : null}, name)))),
        el("tbody", {}, rows))),
    runs.map((run) => notesElement(notesOf(run).map((note) => run.name + ": " + note))));
}

function dataSection() {
  const parts = runs.filter((run) => run.start.length || run.example.length).map((run) => {
    const hasTargets = run.example.some(([, target]) => target);
    return el("div", {}, several ? el("h3", {}, run.name) : null,
      el("dl", {class: "facts"}, run.start.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)))),
      run.example.length ? el("figure", {class: "example"},
        el("figcaption", {}, "An example as the model reads it" + (hasTargets ? ". What it learns to write is underlined." : ".")),
        el("pre", {tabindex: "0"}, run.example.map(([text, target]) => (target
          ? el("span", {class: "target"}, el("span", {class: "hidden"}, "[target] "), text, el("span", {class: "hidden"}, " [end of target]")) : text)))) : null);
  });
  return parts.length ? section("data-facts", "Data and model", parts) : null;
}

function verdicts() {
  const levels = {fail: "failure", FAIL: "failure", warn: "warning", note: "note", ok: "in order"};
  const details = [["evidence", "evidence"], ["cause", "cause"], ["not_this", "not the cause"], ["fix", "what to do"], ["cost", "what it costs"]];
  const parts = runs.filter((run) => run.verdicts.length).map((run) => el("div", {}, several ? el("h3", {}, run.name) : null,
    el("ul", {class: "verdicts"}, run.verdicts.map((one) => el("li", {class: "verdict " + String(one.level).toLowerCase()},
      el("p", {}, el("span", {class: "level"}, levels[one.level] || one.level), one.code ? el("code", {}, one.code) : null,
        el("span", {class: "when"}, one.step > 0 ? "step " + whole(one.step) : "before step 1"), " ", one.what),
      details.some(([name]) => one[name]) ? el("dl", {}, details.filter(([name]) => one[name]).map(([name, title]) =>
        el("div", {}, el("dt", {}, title), el("dd", {}, one[name])))) : null)))));
  return parts.length ? section("doctor", "Doctor", parts) : null;
}

// The options: of one run what differs from the defaults, of several what differs between them, or all.
class Options {
  constructor() {
    if (!runs.some((run) => run.plan.length)) return;
    this.body = el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Options"});
    this.said = el("p", {class: "status", role: "status"});
    const choices = [several ? ["differ", "what differs between the runs"] : null, ["changed", "what differs from the defaults"], ["all", "all options"]].filter(Boolean);
    this.which = choices.some(([name]) => name === kept("options")) ? kept("options") : choices[0][0];
    const boxes = choices.map(([name, text]) => el("label", {class: "check", for: "options-" + name},
      el("input", {type: "radio", name: "options", id: "options-" + name, value: name, checked: name === this.which,
                   onchange: () => { this.which = name; keep("options", name); this.show(); }}), text));
    this.element = section("options", "Options", el("fieldset", {class: "controls"}, el("legend", {class: "hidden"}, "Which options"), boxes), this.said, this.body);
    this.show();
  }

  show() {
    const plans = runs.map((run) => new Map(run.plan.map((row) => [row.name, row])));
    const all = [...new Map(runs.flatMap((run) => run.plan.map((row) => [row.name, row]))).values()];
    const places = /^(output_dir|run_name|resume_from_checkpoint|overwrite_output_dir)$/;  // they differ in any two runs
    const differs = (row) => !places.test(row.name) && new Set(plans.map((plan) => plan.get(row.name)?.value)).size > 1;
    const changed = (row) => plans.some((plan) => plan.get(row.name)?.standard !== undefined);
    const rows = all.filter((row) => (this.which === "all" ? true : this.which === "differ" ? differs(row) : changed(row)));
    const standard = (row) => plans.map((plan) => plan.get(row.name)).find((one) => one)?.standard ?? "";
    const heads = several ? runs.map((run) => run.name) : ["value"];
    const cells = (row) => plans.map((plan, i) => {
      const one = plan.get(row.name);
      return el("td", {role: "cell", class: one?.standard !== undefined ? "text changed" : "text", "data-name": heads[i]}, one ? one.value : "–");
    });
    this.said.textContent = `${plural(rows.length, "option")} of ${all.length}.`;
    const groups = new Map();
    for (const row of rows) groups.set(row.group, [...(groups.get(row.group) || []), row]);
    const row = (one) => el("tr", {role: "row"}, el("th", {scope: "row", role: "rowheader"}, el("code", {}, one.name)), cells(one),
      el("td", {role: "cell", class: "text", "data-name": "default"}, standard(one)));
    this.body.replaceChildren(el("table", {class: "options", role: "table"}, el("caption", {class: "hidden"}, "Options"),
      el("thead", {role: "rowgroup"}, el("tr", {role: "row"}, ["option", ...heads, "default, where it differs"].map((text) => el("th", {scope: "col", role: "columnheader"}, text)))),
      [...groups].map(([group, own]) => el("tbody", {role: "rowgroup"}, el("tr", {class: "group", role: "row"},
        el("th", {scope: "rowgroup", role: "rowheader", colspan: heads.length + 2}, group || "options")), own.map(row)))));
  }
}
