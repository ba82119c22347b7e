// The completions of a step with their rewards: a slider over the steps, a search, and the table.

// Text with what was searched for marked.
function marked(text, find) {
  if (!find) return [text];
  const out = [], low = text.toLowerCase();
  if (low.length !== text.length) return [text];  // lower case of another length: places would not fit
  let from = 0;
  for (let at = low.indexOf(find); at >= 0; at = low.indexOf(find, from)) {
    out.push(text.slice(from, at), el("mark", {}, text.slice(at, at + find.length)));
    from = at + find.length;
  }
  out.push(text.slice(from));
  return out;
}

// A long text is cut to some lines, with a button that shows all of it.
function cutText(text, find) {
  const body = el("div", {class: "said"}, marked(text, find));
  if (text === "") return el("div", {class: "said empty"}, "(empty)");
  const long = text.length > 360 || text.split("\n").length > 6;
  if (!long) return body;
  const isOpen = Boolean(find);
  body.classList.toggle("cut", !isOpen);
  const button = el("button", {type: "button", class: "quiet more", "aria-expanded": String(isOpen), onclick: () => {
    const cut = body.classList.toggle("cut");
    button.setAttribute("aria-expanded", String(!cut));
    button.textContent = cut ? "Show all" : "Show less";
  }}, isOpen ? "Show less" : "Show all");
  return el("div", {}, body, button);
}

class Completions {
  constructor() {
    this.with = runs.filter((run) => run.completions.length > 0);
    if (this.with.length === 0) return;
    this.body = el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Completions", id: "completions-table"});
    this.said = el("p", {class: "status", role: "status", id: "completions-said"});
    this.element = el("section", {class: "card", id: "completions", "aria-labelledby": "completions-head"},
      el("h2", {id: "completions-head", tabindex: "-1"}, "Completions"), this.controls(), this.said, this.body);
    this.show();
  }

  get run() {
    return this.with.find((run) => run.name === kept("run")) || this.with[0];
  }

  controls() {
    const choose = el("select", {id: "completions-run", onchange: (event) => { keep("run", event.target.value); this.restart(); }},
      this.with.map((run) => el("option", {value: run.name, selected: run === this.run}, run.name)));
    this.slider = el("input", {type: "range", id: "completions-step", min: 0, step: 1, oninput: () => this.move(Number(this.slider.value))});
    this.where = el("output", {for: "completions-step", id: "completions-where"});
    const find = el("input", {type: "search", id: "completions-find", value: kept("find"), placeholder: "text in a prompt or a completion",
      spellcheck: "false", autocomplete: "off", oninput: (event) => { keep("find", event.target.value); this.show(); }});
    const all = el("input", {type: "checkbox", id: "completions-all", checked: kept("all") === "1",
      onchange: (event) => { keep("all", event.target.checked ? "1" : ""); this.show(); }});
    this.order = el("select", {id: "completions-order", onchange: (event) => { keep("order", event.target.value); this.show(); }});
    const step = (by) => this.move(this.at() + by);
    return el("div", {class: "controls"},
      this.with.length > 1 ? el("label", {for: "completions-run"}, "Run ", choose) : null,
      el("div", {class: "stepper"}, el("label", {for: "completions-step"}, "Step"),
        el("button", {type: "button", class: "quiet", "aria-label": "Earlier step", onclick: () => step(-1)}, "‹"), this.slider,
        el("button", {type: "button", class: "quiet", "aria-label": "Later step", onclick: () => step(1)}, "›"), this.where),
      el("label", {for: "completions-find", class: "find"}, "Find ", find),
      el("label", {for: "completions-all", class: "check"}, all, "in all steps"),
      el("label", {for: "completions-order"}, "Order ", this.order));
  }

  at() {
    const steps = this.run.completions.map((one) => one.step);
    const wanted = kept("step") === "" ? Infinity : Number(kept("step"));
    let best = steps.length - 1;
    steps.forEach((step, i) => {
      if (step <= wanted) best = i;
    });
    return wanted < steps[0] ? 0 : best;
  }

  move(to) {
    const list = this.run.completions, i = Math.max(0, Math.min(list.length - 1, to));
    keep("step", i === list.length - 1 ? "" : String(list[i].step));  // the newest stays the newest
    this.show();
  }

  restart() {
    keep("step", "");
    this.show();
  }

  setControls(shown) {
    const list = this.run.completions;
    this.slider.max = list.length - 1;
    this.slider.value = this.at();
    this.slider.setAttribute("aria-valuetext", "step " + whole(list[this.at()].step));
    const files = this.run.completion_files;
    this.where.textContent = whole(list[this.at()].step) + (files > list.length ? ` (${list.length} of ${whole(files)} files are in this page)` : "");
    const words = [["", "as in the file"]];
    shown.columns.forEach((column, i) => {
      if (shown.completions.some((row) => typeof row[i + 2] === "number"))
        words.push([column + " up", column + ", lowest first"], [column + " down", column + ", highest first"]);
    });
    this.order.replaceChildren(...words.map(([value, text]) => el("option", {value, selected: value === kept("order")}, text)));
  }

  show() {
    const list = this.run.completions, now = list[this.at()], find = kept("find").toLowerCase();
    this.setControls(now);
    const steps = find && kept("all") === "1" ? list : [now];
    const most = 200;
    let found = 0, drawn = 0;
    const parts = steps.map((step) => {
      const rows = this.matching(step, find);
      found += rows.length;
      const some = rows.slice(0, Math.max(0, most - drawn));
      drawn += some.length;
      return some.length ? this.table(step, some, find, steps.length > 1) : null;
    });
    this.body.replaceChildren(...parts.filter(Boolean));
    const total = steps.reduce((sum, step) => sum + step.completions.length, 0);
    const left = steps.length === 1 && now.rows > now.completions.length ? ` The file has ${whole(now.rows)}.` : "";
    const skipped = this.run.completions_skipped ? ` ${plural(this.run.completions_skipped, "line")} could not be read.` : "";
    this.said.textContent = (find ? `${whole(found)} of ${plural(total, "completion")}` : plural(total, "completion")) +
      (found > drawn ? `, the first ${most} shown.` : ".") + left + skipped;
  }

  matching(step, find) {
    const rows = step.completions.filter((row) => !find || textOf(row[1]).toLowerCase().includes(find) || step.prompts[row[0]].toLowerCase().includes(find));
    const [, column, way] = kept("order").match(/^(.*) (up|down)$/s) || [];
    const i = step.columns.indexOf(column);
    if (i < 0) return rows;
    const value = (row) => (typeof row[i + 2] === "number" ? row[i + 2] : way === "up" ? Infinity : -Infinity);
    return [...rows].sort((a, b) => (way === "up" ? 1 : -1) * (value(a) - value(b)));
  }

  // Completions that follow each other and have one prompt are below it.
  table(step, rows, find, named) {
    const columns = step.columns;
    const head = el("tr", {role: "row"}, el("th", {scope: "col", role: "columnheader"}, "completion"),
      columns.map((name) => el("th", {scope: "col", role: "columnheader", class: "number"}, name)));
    const bodies = [];
    let prompt = -1;
    for (const row of rows) {
      if (row[0] !== prompt) {
        prompt = row[0];
        bodies.push(el("tbody", {role: "rowgroup"}, el("tr", {role: "row", class: "prompt"},
          el("th", {scope: "rowgroup", role: "rowheader", colspan: columns.length + 1}, el("span", {class: "tag"}, "prompt"),
            cutText(step.prompts[prompt], find)))));
      }
      bodies[bodies.length - 1].append(el("tr", {role: "row"},
        el("td", {role: "cell", class: "text", "data-name": "completion"}, saidView(row[1], find)),
        columns.map((name, i) => this.cell(name, row[i + 2]))));
    }
    const caption = named ? "Step " + whole(step.step) : "Completions of step " + whole(step.step);
    return el("table", {role: "table", class: "completions"}, el("caption", {class: named ? null : "hidden"}, caption),
      el("thead", {role: "rowgroup"}, head), bodies);
  }

  cell(name, value) {
    const is = value === undefined || value === null;
    const text = is ? "–" : typeof value === "number" ? number(value) : typeof value === "boolean" ? (value ? "yes" : "no") : value;
    const kind = typeof value === "number" && value !== 0 ? (value > 0 ? " up" : " down") : "";
    return el("td", {role: "cell", class: typeof value === "string" ? "text" : "number" + kind, "data-name": name}, text);
  }
}
