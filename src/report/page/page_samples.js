// The run's fixed prompts: what the model writes for them after one step beside what it writes after another.
class Samples {
  constructor() {
    this.with = runs.filter((run) => run.samples);
    if (this.with.length === 0) return;
    this.body = el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Samples", id: "samples-table"});
    this.said = el("p", {class: "status", role: "status", id: "samples-said"});
    this.element = el("section", {class: "card", id: "samples", "aria-labelledby": "samples-head"},
      el("h2", {id: "samples-head", tabindex: "-1"}, "Samples"), this.controls(), this.said, this.body);
    this.show();
  }

  get run() {
    return this.with.find((run) => run.name === kept("samples-run")) || this.with[0];
  }

  get steps() {
    return this.run.samples.steps;
  }

  controls() {
    const choose = el("select", {id: "samples-run", onchange: (event) => { keep("samples-run", event.target.value); this.restart(); }},
      this.with.map((run) => el("option", {value: run.name, selected: run === this.run}, run.name)));
    this.sides = [this.side("from", "From", "Left"), this.side("to", "To", "Right")];
    return el("div", {class: "controls"},
      this.with.length > 1 ? el("label", {for: "samples-run"}, "Run ", choose) : null, this.sides.map((side) => side.element));
  }

  side(name, label, which) {
    const id = "samples-" + name;
    const slider = el("input", {type: "range", id, min: 0, step: 1, oninput: () => this.move(name, Number(slider.value))});
    const where = el("output", {for: id, id: id + "-where"});
    const by = (more) => this.move(name, this.at(name) + more);
    return {name, slider, where, element: el("div", {class: "stepper"}, el("label", {for: id}, label),
      el("button", {type: "button", class: "quiet", "aria-label": `${which} side: earlier step`, onclick: () => by(-1)}, "‹"), slider,
      el("button", {type: "button", class: "quiet", "aria-label": `${which} side: later step`, onclick: () => by(1)}, "›"), where)};
  }

  // The place of a side's step: by default the first beside the newest.
  at(name) {
    const wanted = kept("samples-" + name) === "" ? (name === "from" ? -Infinity : Infinity) : Number(kept("samples-" + name));
    let best = 0;
    this.steps.forEach((one, i) => {
      if (one.step <= wanted) best = i;
    });
    return best;
  }

  move(name, to) {
    const last = this.steps.length - 1, i = Math.max(0, Math.min(last, to));
    keep("samples-" + name, i === (name === "from" ? 0 : last) ? "" : String(this.steps[i].step));  // the newest stays the newest
    this.show();
  }

  restart() {
    keep("samples-from", "");
    keep("samples-to", "");
    this.show();
  }

  show() {
    const all = this.run.samples;
    for (const side of this.sides) {
      const step = this.steps[this.at(side.name)].step;
      side.slider.max = this.steps.length - 1;
      side.slider.value = this.at(side.name);
      side.slider.setAttribute("aria-valuetext", this.title(step));
      side.where.textContent = whole(step);
    }
    const pair = ["from", "to"].map((name) => this.steps[this.at(name)]);
    const shown = Math.max(...pair.map((one) => one.completions.length));
    this.said.textContent = `Greedy completions of ${plural(shown, "prompt")}.` +
      (all.all_prompts > shown ? ` The file has ${whole(all.all_prompts)}.` : "") +
      (all.all_steps > this.steps.length ? ` ${whole(this.steps.length)} of ${whole(all.all_steps)} steps are in this page.` : "") +
      (all.skipped ? ` ${plural(all.skipped, "line")} could not be read.` : "");
    this.body.replaceChildren(this.table(pair));
  }

  title(step) {
    return step === 0 ? "before step 1" : "after step " + whole(step);
  }

  // Rows by prompt: those of a step that was made with other prompts are below.
  table(pair) {
    const heads = pair.map((one) => this.title(one.step));
    const prompts = [...new Set(pair.flatMap((one) => one.completions.map((row) => row[0])))];
    const of = (one, prompt) => one.completions.find((row) => row[0] === prompt);
    return el("table", {role: "table", class: "completions samples"}, el("caption", {class: "hidden"}, "Completions of two steps"),
      el("thead", {role: "rowgroup"}, el("tr", {role: "row"}, heads.map((text) => el("th", {scope: "col", role: "columnheader"}, text)))),
      prompts.map((prompt) => el("tbody", {role: "rowgroup"},
        el("tr", {role: "row", class: "prompt"}, el("th", {scope: "rowgroup", role: "rowheader", colspan: 2}, el("span", {class: "tag"}, "prompt"),
          cutText(this.run.samples.prompts[prompt], ""))),
        el("tr", {role: "row"}, pair.map((one, i) => this.cell(of(one, prompt), heads[i]))))));
  }

  cell(row, head) {
    if (!row) return el("td", {role: "cell", class: "text", "data-name": head}, el("div", {class: "said empty"}, "(not sampled)"));
    const [, text, truncated, rewards] = row;
    const words = Object.entries(rewards).map(([name, value]) => name + " " + (value === null ? "none" : number(value)));
    if (truncated) words.push("cut at the limit");
    return el("td", {role: "cell", class: "text", "data-name": head}, cutText(text, ""), words.length ? el("span", {class: "words"}, words.join(" · ")) : null);
  }
}
