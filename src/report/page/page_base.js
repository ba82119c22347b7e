// Elements, and the state of the controls. Everything from the data becomes a text node: nothing of it is ever parsed as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const runs = data.runs;
const several = runs.length > 1;

// el("button", {id: "x", onclick: f}, "text", child): functions are listeners, true is an empty attribute, null leaves one out.
function el(tag, attributes, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") out.addEventListener(name.slice(2), value);
    else out.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) out.append(child);  // a string is a text node
  }
  return out;
}

// The controls' state is in the address after #, so that it stays when the page is read again and can be sent to somebody.
const state = new URLSearchParams(location.hash.slice(1));
function keep(name, value) {
  if (value === "" || value === null) state.delete(name);
  else state.set(name, value);
  const text = state.toString();
  history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
}
function kept(name, otherwise = "") {
  return state.get(name) ?? otherwise;
}
function keptSet(name) {
  return new Set(kept(name).split("\n").filter(Boolean));
}
function toggleKept(name, word) {
  const words = keptSet(name);
  if (!words.delete(word)) words.add(word);
  keep(name, [...words].join("\n"));
}

// What a file page may not have, such as storage where the browser forbids it, is done without.
function attempt(action) {
  try {
    return action();
  } catch {
    return null;
  }
}

// Colors: the page's own, read once a theme.
let ink = {};
function readInk() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  ink = {text: get("--text"), muted: get("--muted"), grid: get("--grid"), lines: []};
  for (let i = 0; i < 8; ++i) ink.lines.push(get("--line-" + i));
}
function lineColor(i) {
  return ink.lines[i % ink.lines.length];
}
function applyTheme() {
  const theme = kept("theme");
  if (theme) document.documentElement.setAttribute("data-theme", theme);
  else document.documentElement.removeAttribute("data-theme");
  readInk();
}
function isDark() {
  return kept("theme") ? kept("theme") === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
