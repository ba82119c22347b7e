// A dialogue with tools: what was said in it, turn by turn, and the same as the model reads it.

// What a search looks in: a completion is a text or a dialogue.
function textOf(said) {
  return typeof said === "string" ? said : said.turns.map(([, text, tool]) => tool + " " + text).join("\n");
}

function turnTag([kind, , tool, failed, unread]) {
  if (kind === "reasoning") return "reasoning · drawn";
  if (kind === "said") return "assistant · drawn";
  if (kind === "call") return `calls ${tool} · drawn`;
  return `${tool} answers · ` + (unread ? "the dialogue ended before it was read" : "given") + (failed ? " · the call failed" : "");
}

function dialogueView(said, find) {
  const turns = said.turns.map((turn) => el("li", {class: "turn " + turn[0] + (turn[3] ? " failed" : "")},
    el("span", {class: "tag"}, turnTag(turn)), cutText(turn[1], find)));
  const mark = (text) => el("span", {class: "hidden"}, text);
  const spans = said.spans.map(([text, drawn]) => (drawn ? el("span", {class: "target"}, mark("[drawn] "), text, mark(" [end of drawn]")) : text));
  return el("div", {}, el("ol", {class: "turns", role: "list"}, turns),
    said.left_out ? el("p", {class: "status"}, plural(said.left_out, "more turn") + ", in the file.") : null,
    spans.length ? el("details", {class: "spans"}, el("summary", {}, "As the model reads it"),
      el("p", {class: "status"}, "What the model drew is underlined, and only that is trained on."), el("pre", {tabindex: "0"}, spans)) : null);
}

function saidView(said, find) {
  return typeof said === "string" ? cutText(said, find) : dialogueView(said, find);
}
