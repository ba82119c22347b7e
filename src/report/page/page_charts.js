// Charts: what is drawn in each, the drawing by uPlot, the legend as buttons, the values as a table.

// Steps ascend; of two values at one step (an evaluation that was made again) the last counts.
function unrepeated(run, series) {
  const steps = run.x[series.x];
  if (!steps.some((step, i) => i > 0 && step === steps[i - 1])) return {...series, steps};
  const last = steps.map((step, i) => i).filter((i) => steps[i] !== steps[i + 1]);
  const pick = (values) => values && last.map((i) => values[i]);
  return {...series, steps: pick(steps), mean: pick(series.mean), low: pick(series.low), high: pick(series.high)};
}

// [{title, label, unit, format, lines: [{id, label, color, dash, steps, mean, low, high, ...}]}]; several runs have a chart a name.
function chartsOf() {
  const charts = new Map();
  runs.forEach((run, r) => {
    const train = new Set(run.series.map((one) => one.name).filter((name) => !name.startsWith("eval_")));
    for (const series of run.series) {
      const {key, evaluation, set} = nameOf(series.name, train);
      if (evaluation && unseen.test(key)) continue;
      const kind = kindOf(key);
      const own = kind.label ? kind.label(key) : key.replace(/^performance\//, "").replaceAll("_", " ");
      const title = several && kind.label ? kind.title + ": " + own : kind.title;
      if (!charts.has(title)) charts.set(title, {title, kind, lines: []});
      const what = (kind.label && !several ? own : several ? run.name : own) + (evaluation ? " (evaluation" + (set ? " " + set : "") + ")" : "");
      charts.get(title).lines.push({...unrepeated(run, series), id: series.name, run: r, label: what, evaluation});
    }
  });
  const order = (chart) => (kinds.includes(chart.kind) ? kinds.indexOf(chart.kind) : kinds.length);
  const out = [...charts.values()].sort((a, b) => order(a) - order(b));
  for (const chart of out) {
    // An evaluation has the color of what it evaluates; beside only one line it has one of its own.
    const colors = new Map();
    const one = new Set(chart.lines.map((line) => line.id.replace(/^eval_/, ""))).size === 1;
    chart.lines.forEach((line) => {
      const key = several ? line.run : one ? line.id : line.id.replace(/^eval_/, "");
      if (!colors.has(key)) colors.set(key, several ? line.run : colors.size);
      line.color = colors.get(key);
    });
  }
  return out;
}

function smoothed(values, weight) {
  if (!weight) return values;
  let sum = 0, mass = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return value;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

function isHidden(chart, line) {
  return several ? keptSet("hide").has(runs[line.run].name) : keptSet("off").has(chart.title + "|" + line.id);
}

function describe(line, format) {
  const at = ([step, value]) => format(value) + " at step " + whole(step);
  if (!line.count) return line.label + ": no value";
  if (line.count === 1) return line.label + ": " + at(line.first);
  return `${line.label}: from ${at(line.first)} to ${at(line.last)}, lowest ${at(line.lowest)}, highest ${at(line.highest)}`;
}

// One chart. Drawn when it comes into view.
class Chart {
  constructor(chart, index) {
    Object.assign(this, chart);
    this.format = chart.kind.format || number;
    this.unit = chart.kind.unit || "";
    this.index = index;
    this.plotted = null;
    this.place = el("div", {class: "plot", id: "plot-" + index, tabindex: "0", role: "slider", "aria-label": chart.title + ", value at step",
      "aria-valuemin": 0, onkeydown: (event) => this.key(event), onblur: () => this.point(null)});
    this.legend = el("div", {class: "legend", role: "group", "aria-label": "Lines of " + chart.title});
    this.reset = el("button", {class: "quiet", type: "button", hidden: true, onclick: () => this.unzoom()}, "Whole run");
    this.table = el("details", {class: "values", id: "values-" + index, ontoggle: () => this.fillTable()},
      el("summary", {}, "Values as a table"));
    this.element = el("section", {class: "card chart", "aria-labelledby": "chart-" + index},
      el("div", {class: "chart-head"},
        el("h3", {id: "chart-" + index}, chart.title, this.unit ? el("span", {class: "unit"}, " " + this.unit) : null), this.reset),
      this.legend, this.place, this.table);
    this.buildLegend();
    this.setAlternative();
  }

  setAlternative() {
    const steps = this.lines.flatMap((line) => [line.first?.[0] ?? 0, line.last?.[0] ?? 0]);
    this.place.setAttribute("aria-valuemin", Math.min(...steps));
    this.place.setAttribute("aria-valuemax", Math.max(...steps));
    this.place.setAttribute("aria-valuenow", Math.max(...steps));
    this.place.setAttribute("aria-valuetext", this.lines.map((line) => describe(line, this.format)).join("; "));
  }

  buildLegend() {
    this.values = this.lines.map((line, i) => {
      const value = el("span", {class: "value"}, this.format(line.last?.[1]));
      const mark = el("span", {class: line.evaluation ? "mark dashed" : "mark", "aria-hidden": "true"});
      line.mark = mark;
      const button = el("button", {class: "line", type: "button", id: `line-${this.index}-${i}`, "aria-pressed": String(!isHidden(this, line)),
        title: describe(line, this.format), onclick: () => this.toggle(line)}, mark, el("span", {class: "name"}, line.label), value);
      line.button = button;
      this.legend.append(button);
      return value;
    });
  }

  toggle(line) {
    if (several) toggleKept("hide", runs[line.run].name);
    else toggleKept("off", this.title + "|" + line.id);
    for (const chart of several ? page.charts : [this]) chart.showLines();
    if (several) page.onRunsShown();
  }

  showLines() {
    for (const line of this.lines) line.button.setAttribute("aria-pressed", String(!isHidden(this, line)));
    if (this.plotted) {
      this.columns.forEach((column, i) => this.plotted.setSeries(i + 1, {show: this.isShown(column)}));
    }
  }

  isShown(column) {
    return !isHidden(this, column.line) && (column.what !== "raw" || (page.smoothing() > 0 && !column.line.low && !column.line.evaluation));
  }

  // A line is up to four columns: its range, its values, and these smoothed.
  makeColumns() {
    this.columns = [];
    for (const line of this.lines) {
      if (line.low) this.columns.push({line, what: "low", values: line.low}, {line, what: "high", values: line.high});
      this.columns.push({line, what: "raw", values: line.mean}, {line, what: "mean", values: smoothed(line.mean, line.evaluation ? 0 : page.smoothing())});
    }
  }

  alignedData() {
    const tables = this.columns.map((column) => [column.line.steps, column.values]);
    const same = tables.every(([steps]) => steps === tables[0][0]);
    return same ? [tables[0][0], ...tables.map(([, values]) => values)] : uPlot.join(tables);
  }

  draw() {
    if (this.plotted) return;
    this.makeColumns();
    const axis = {stroke: () => ink.muted, grid: {stroke: () => ink.grid, width: 1}, ticks: {stroke: () => ink.grid, width: 1, size: 4},
                  font: "12px system-ui, sans-serif"};
    const bands = [];
    this.columns.forEach((column, i) => {
      if (column.what === "high") bands.push({series: [i + 1, i], fill: () => lineColor(column.line.color) + "2c"});
    });
    const options = {
      width: this.width(), height: 220, legend: {show: false}, bands, padding: [10, 26, 0, 0],
      scales: {x: {time: false}, y: {range: (u, low, high) => this.range(low, high)}},
      cursor: {sync: {key: "steps"}, drag: {x: true, y: false}, points: {size: 7}},
      axes: [{...axis, size: 34, values: (u, splits) => splits.map((step) => (Number.isInteger(step) ? whole(step) : ""))},
             {...axis, size: (u, values) => Math.max(40, ...(values || []).map((text) => 16 + 6.6 * String(text).length)),
              values: (u, splits) => this.ticks(splits)}],
      series: [{}, ...this.columns.map((column) => this.seriesOptions(column))],
      hooks: {setCursor: [() => this.readout()], setScale: [(u, key) => key === "x" && this.zoomed()]},
    };
    this.plotted = new uPlot(options, this.alignedData(), this.place);
    this.plotted.over.setAttribute("aria-hidden", "true");
    new ResizeObserver(() => this.plotted.setSize({width: this.width(), height: 220})).observe(this.place);
  }

  // Bytes and seconds as they are read; numbers with as many digits as tell them apart.
  ticks(splits) {
    const step = splits.length > 1 ? Math.abs(splits[1] - splits[0]) : 1;
    const size = Math.max(...splits.map(Math.abs));
    const decimals = (unit) => {
      let digits = 0;
      while (digits < 6 && Math.abs((step / unit) * 10 ** digits - Math.round((step / unit) * 10 ** digits)) > 1e-6) ++digits;
      return digits;
    };
    const scale = this.kind.scale?.(size);
    if (scale) return splits.map((value) => (value / scale.one).toFixed(decimals(scale.one)) + scale.name);
    if (size >= 1e6 || (size > 0 && size < 1e-3)) {
      const more = Math.max(0, Math.floor(Math.log10(size)) - Math.floor(Math.log10(step)));
      return splits.map((value) => (value === 0 ? "0" : Number(value.toPrecision(more + 1)).toExponential()));
    }
    return splits.map((value) => value.toFixed(decimals(1)));
  }

  seriesOptions({line, what}) {
    const edge = what === "low" || what === "high";
    const few = line.steps.length < 30;
    return {
      show: this.isShown({line, what}),
      stroke: () => lineColor(line.color) + (edge ? "3c" : what === "raw" ? "66" : ""),  // the edges: a peak of one step is a thin line
      width: what === "mean" ? 2 : 1,
      dash: line.evaluation && what === "mean" ? [6, 4] : undefined,
      points: {show: what === "mean" && (few || line.evaluation), size: 6, fill: () => lineColor(line.color), stroke: () => lineColor(line.color)},
    };
  }

  range(low, high) {
    if (low === null || high === null) return [0, 1];
    if (low === high) return low === 0 ? [-1, 1] : [low - Math.abs(low) * 0.1, high + Math.abs(high) * 0.1];
    const room = (high - low) * 0.06;
    return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
  }

  width() {
    return Math.max(200, this.place.clientWidth);
  }

  setSmoothing() {
    if (!this.plotted) return;
    this.makeColumns();
    this.plotted.setData(this.alignedData(), false);
    this.showLines();
    this.plotted.redraw();
  }

  redraw() {
    for (const line of this.lines) line.mark.style.borderColor = lineColor(line.color);
    if (this.plotted) this.plotted.redraw(false);
  }

  zoomed() {
    if (!this.plotted) return;
    const steps = this.plotted.data[0], {min, max} = this.plotted.scales.x;
    this.reset.hidden = !(min > steps[0] || max < steps[steps.length - 1]);
  }

  unzoom() {
    const steps = this.plotted.data[0];
    this.plotted.setScale("x", {min: steps[0], max: steps[steps.length - 1]});
    this.place.focus();
  }

  // The values under the cursor; the last ones where there is none.
  readout() {
    if (!this.plotted) return;
    const at = this.plotted.cursor.idx;
    this.lines.forEach((line, i) => {
      const column = this.columns.findIndex((one) => one.line === line && one.what === "mean");
      let value = at === null || at === undefined ? line.last?.[1] : this.plotted.data[column + 1][at];
      if (value === undefined) value = null;
      this.values[i].textContent = this.format(value);
    });
  }

  // Left and right move from value to value.
  key(event) {
    const moves = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -20, PageUp: 20, Home: -Infinity, End: Infinity};
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.draw();
    const last = this.plotted.data[0].length - 1;
    const from = this.at ?? (moves[event.key] < 0 ? last + 1 : -1);
    this.point(Math.max(0, Math.min(last, from + moves[event.key])));
  }

  point(at) {
    this.at = at;
    if (!this.plotted) return;
    if (at === null) {
      this.plotted.setCursor({left: -10, top: -10});
      this.setAlternative();
      return;
    }
    const step = this.plotted.data[0][at];
    this.plotted.setCursor({left: this.plotted.valToPos(step, "x"), top: 20});
    const said = this.lines.map((line) => {
      const i = line.steps.indexOf(step);
      return i < 0 || isHidden(this, line) ? "" : line.label + " " + this.format(line.mean[i]);
    });
    this.place.setAttribute("aria-valuenow", step);
    this.place.setAttribute("aria-valuetext", `step ${whole(step)}: ${said.filter(Boolean).join(", ")}`);
  }

  fillTable() {
    if (!this.table.open || this.table.querySelector("table")) return;
    const most = 200;
    const all = [...new Set(this.lines.flatMap((line) => line.steps))].sort((a, b) => a - b);
    const steps = all.length <= most ? all : Array.from({length: most}, (_, i) => all[Math.round((i * (all.length - 1)) / (most - 1))]);
    const places = this.lines.map((line) => new Map(line.steps.map((step, i) => [step, i])));
    const rows = steps.map((step) => el("tr", {}, el("th", {scope: "row"}, whole(step)), this.lines.map((line, i) => {
      const at = places[i].get(step);
      return el("td", {}, at === undefined ? "" : this.format(line.mean[at]));
    })));
    const caption = this.title + (all.length > most ? `, ${most} of ${whole(all.length)} points` : "");
    this.table.append(el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": this.title + ", values"},
      el("table", {}, el("caption", {}, caption),
        el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "step"), this.lines.map((line) => el("th", {scope: "col"}, line.label)))),
        el("tbody", {}, rows))));
  }
}
