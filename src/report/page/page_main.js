// The page: its head, its sections, and how it reads itself again while a run goes on.
const page = {
  charts: [],
  smoothing: () => Math.min(0.99, Math.max(0, Number(kept("smooth", "0")) || 0)),

  header() {
    const run = runs[0];
    const title = several ? plural(runs.length, "run") : run.name;
    document.title = "hone: " + title;
    const nav = [["charts", "Charts"], ["samples", "Samples"], ["completions", "Completions"], ["data-facts", "Data"], ["doctor", "Doctor"], ["options", "Options"]]
      .filter(([id]) => document.getElementById(id))
      .map(([id, text]) => el("li", {}, el("button", {type: "button", class: "quiet", onclick: () => this.goTo(id)}, text)));
    this.theme = el("button", {type: "button", id: "theme", class: "quiet", onclick: () => this.turnTheme()});
    document.getElementById("top").append(
      el("div", {class: "title"}, el("h1", {}, title),
        several ? null : el("p", {class: "sub"}, run.method ? el("span", {class: "method"}, run.method) : null, badge(run), progress(run))),
      el("nav", {"aria-label": "Sections"}, el("ul", {}, nav)),
      el("div", {class: "tools"}, el("p", {class: "written", id: "written"}), this.refreshButton(), this.theme));
    this.sayTheme();
    this.sayAge();
  },

  goTo(id) {
    const head = document.getElementById(id + "-head") || document.getElementById(id);
    head.focus({preventScroll: true});
    document.getElementById(id).scrollIntoView({behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"});
  },

  sayTheme() {
    this.theme.textContent = isDark() ? "Light" : "Dark";
    this.theme.setAttribute("aria-label", (isDark() ? "Light" : "Dark") + " colors");
  },

  turnTheme() {
    keep("theme", isDark() ? "light" : "dark");
    this.repaint();
  },

  repaint() {
    applyTheme();
    this.sayTheme();
    for (const mark of document.querySelectorAll(".mark[data-color]")) mark.style.borderColor = lineColor(Number(mark.dataset.color));
    for (const chart of this.charts) chart.redraw();
  },

  toggleRun(r) {
    toggleKept("hide", runs[r].name);
    for (const chart of this.charts) chart.showLines();
  },

  onRunsShown() {
    runs.forEach((run, r) => {
      const box = document.getElementById("show-" + r);
      if (box) box.checked = !keptSet("hide").has(run.name);
    });
  },

  chartSection() {
    const all = chartsOf();
    if (all.length === 0) return section("charts", "Charts", el("p", {}, "Nothing is logged yet."));
    this.charts = all.map((chart, i) => new Chart(chart, i));
    const said = el("output", {for: "smooth", id: "smooth-said"}, kept("smooth", "0"));
    const smooth = el("input", {type: "range", id: "smooth", min: 0, max: 0.99, step: 0.01, value: kept("smooth", "0"), oninput: () => {
      keep("smooth", smooth.value === "0" ? "" : smooth.value);
      said.textContent = smooth.value;
      for (const chart of this.charts) chart.setSmoothing();
    }});
    return el("section", {id: "charts", "aria-labelledby": "charts-head"},
      el("div", {class: "section-head"}, el("h2", {id: "charts-head", tabindex: "-1"}, "Charts"),
        el("label", {for: "smooth", class: "smooth"}, "Smoothing ", smooth, said),
        el("p", {class: "hint"}, "Drag over a chart to enlarge a part. With the keyboard: arrow keys move from value to value.")),
      el("div", {class: "charts"}, this.charts.map((chart) => chart.element)));
  },

  // Charts are drawn when they come near the window: a page of many opens at once.
  drawInView() {
    const watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        watch.unobserve(entry.target);
        this.charts.find((chart) => chart.element === entry.target).draw();
      }
    }, {rootMargin: "300px"});
    for (const chart of this.charts) watch.observe(chart.element);
  },

  // ---- reading itself again
  refreshButton() {
    if (!data.refresh) return null;
    const out = el("button", {type: "button", id: "pause", class: "quiet", "aria-pressed": String(kept("pause") === "1"), onclick: () => {
      keep("pause", kept("pause") === "1" ? "" : "1");
      out.setAttribute("aria-pressed", String(kept("pause") === "1"));
    }}, "Pause updates");
    return out;
  },

  sayAge() {
    const age = Date.now() / 1000 - data.written;
    const late = data.refresh && age > 900;
    document.getElementById("written").textContent = `Written ${clock(data.written)}` +
      (late ? `, ${seconds(age)} ago: the run takes long, or was killed. hone explain tells.` : "");
  },

  isBusy() {
    const active = document.activeElement;
    const writes = active && active.matches("input, select, .plot") && Date.now() - this.touched < 5000;
    return document.hidden || kept("pause") === "1" || writes || String(getSelection()).length > 0 || this.pressed;
  },

  refreshWhenDue() {
    if (!data.refresh) return;
    this.touched = 0;
    this.pressed = false;
    for (const name of ["keydown", "input", "pointerdown"]) addEventListener(name, () => { this.touched = Date.now(); }, true);
    addEventListener("pointerdown", () => { this.pressed = true; }, true);
    for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { this.pressed = false; }, true);
    const opened = Date.now();
    setInterval(() => {
      const late = Date.now() / 1000 - data.written > 900;
      if (Date.now() - opened < (late ? 60 : data.refresh) * 1000 || this.isBusy()) return;
      attempt(() => sessionStorage.setItem("hone-place", JSON.stringify([location.pathname, scrollX, scrollY, document.activeElement?.id || ""])));
      location.reload();
    }, 1000);
  },

  // Where the reader was before the page was read again.
  restorePlace() {
    const [path, x, y, id] = JSON.parse(attempt(() => sessionStorage.getItem("hone-place")) || "[]");
    if (path !== location.pathname) return;
    attempt(() => sessionStorage.removeItem("hone-place"));
    if (id) document.getElementById(id)?.focus({preventScroll: true});
    scrollTo(x, y);
  },

  build() {
    applyTheme();
    const samples = new Samples(), completions = new Completions(), options = new Options();
    document.getElementById("main").replaceChildren(...[overview(), this.chartSection(), samples.element, completions.element, dataSection(), verdicts(), options.element].filter(Boolean));
    this.header();
    this.repaint();
    this.drawInView();
    this.restorePlace();
    this.refreshWhenDue();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    addEventListener("beforeprint", () => this.charts.forEach((chart) => chart.draw()));
    document.documentElement.setAttribute("data-ready", "");
  },
};
page.build();
