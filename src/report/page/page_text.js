// Numbers and names as they are shown.
function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e15 || size < 1e-4) return value.toExponential(2);
  if (size >= 1000) return value.toLocaleString("en-US", {maximumFractionDigits: size >= 100000 ? 0 : 1});
  return String(Number(value.toPrecision(4)));
}
function whole(value) {
  return value.toLocaleString("en-US");
}
function bytes(value) {
  return (value / 1e9).toFixed(value < 1e10 ? 2 : 1) + " GB";
}
function seconds(value) {
  if (!Number.isFinite(value)) return "–";
  if (value < 1) return (value * 1000).toFixed(0) + " ms";
  if (value < 90) return value.toFixed(value < 10 ? 1 : 0) + " s";
  const minutes = Math.round(value / 60);
  if (minutes < 90) return minutes + " min";
  return Math.floor(minutes / 60) + " h " + String(minutes % 60).padStart(2, "0") + " min";
}
// The unit of an axis whose largest value is `size`.
function byteScale() {
  return {one: 1e9, name: " GB"};
}
function timeScale(size) {
  return size < 1 ? {one: 1e-3, name: " ms"} : size < 180 ? {one: 1, name: " s"} : {one: 60, name: " min"};
}
function plural(count, one) {
  return whole(count) + " " + one + (count === 1 ? "" : "s");
}
function clock(since1970) {
  return new Date(since1970 * 1000).toLocaleString();
}

// eval_NAME_loss of several evaluation sets: {key: "loss", set: "NAME"}; eval_loss has an empty set. `train`: names without eval_.
function nameOf(name, train) {
  if (!name.startsWith("eval_")) return {key: name, evaluation: false, set: ""};
  const rest = name.slice(5);
  if (train.has(rest)) return {key: rest, evaluation: true, set: ""};
  let best = "";
  for (const key of train) {
    if (rest.endsWith("_" + key) && key.length > best.length) best = key;
  }
  for (const key of best ? [] : ["runtime", "samples_per_second", "steps_per_second", "num_tokens", "loss"]) {
    if (rest === key || rest.endsWith("_" + key)) best = key;
  }
  const scored = best ? null : rest.match(/^(.+?)_(rewards\/.+\/(?:mean|std|ci_low|ci_high))$/);  // eval_reward_funcs on several sets
  if (scored) return {key: scored[2], evaluation: true, set: scored[1]};
  if (best && rest !== best) return {key: best, evaluation: true, set: rest.slice(0, -best.length - 1)};
  return {key: best || rest, evaluation: true, set: ""};
}

// Which chart a number is in, in this order: title, names, what is said of it, unit.
const kinds = [
  {title: "Loss", test: /^loss$/},
  {title: "Reward", test: /^(reward|objective\/scores|objective\/rlhf_reward)$/},
  {title: "Rewards by function", test: /^rewards\/.+\/(mean|ci_low|ci_high)$/,
   label: (key) => key.slice(8).replace(/\/mean$/, "").replace(/\/ci_low$/, ", 95 % low").replace(/\/ci_high$/, ", 95 % high")},
  {title: "Rewards of chosen and rejected", test: /^rewards\/(chosen|rejected)$/},
  {title: "Reward margin", test: /^(rewards\/margins|margin|objective\/margins)$/},
  {title: "Preferred side is right", test: /^(rewards\/accuracies|accuracy|accuracies)$/},
  {title: "Spread of rewards", test: /^(reward_std|rewards\/.+\/std)$/, label: (key) => key.replace(/^rewards\/(.+)\/std$/, "$1")},
  {title: "KL to the reference", test: /^(kl|objective\/kl)$/},
  {title: "Entropy", test: /^(entropy|objective\/entropy)$/},
  {title: "Token accuracy", test: /^mean_token_accuracy$/},
  {title: "Completion length", test: /^completions\/(mean|min|max)_length$/, unit: "tokens", label: (key) => key.slice(12, -7)},
  {title: "Length of ended completions", test: /^completions\/(mean|min|max)_terminated_length$/, unit: "tokens",
   label: (key) => key.slice(12, -18)},
  {title: "Completions cut at the limit", test: /^completions\/clipped_ratio$/, unit: "share"},
  {title: "Groups without a gradient", test: /^(dead_groups|frac_reward_zero_std)$/, unit: "share"},
  {title: "Learning rate", test: /^learning_rate$/},
  {title: "Gradient norm", test: /^grad_norm$/},
  {title: "Gap of sampler and trainer", test: /^(ratio_gap|sampling\/.+)$/},
  {title: "Clipped ratios", test: /^clip_ratio\//, unit: "share", label: (key) => key.slice(11)},
  {title: "Log-probabilities", test: /^logps\//, label: (key) => key.slice(6)},
  {title: "Logits", test: /^logits\//, label: (key) => key.slice(7)},
  {title: "Tokens a second", test: /^performance\/tokens_per_second$/},
  {title: "Time of a step by phase", test: /^performance\/((rollout|reward|train)_)?seconds$/, unit: "s",
   label: (key) => key.slice(12).replace(/_?seconds$/, "") || "whole step", format: seconds, scale: timeScale},
  {title: "Time of evaluations and checkpoints", test: /^performance\/.+_seconds$/, unit: "s",
   label: (key) => key.slice(12, -8), format: seconds, scale: timeScale},
  {title: "Memory, peak", test: /^performance\/memory_peak$/, format: bytes, scale: byteScale},
  {title: "Tokens seen", test: /^num_tokens$/},
];
const unseen = /^(runtime|samples_per_second|steps_per_second|num_tokens)$/;  // of an evaluation

// Names that no kind has: those with a common first part share a chart.
function kindOf(key) {
  const known = kinds.find((kind) => kind.test.test(key));
  if (known) return known;
  const slash = key.indexOf("/");
  const title = (slash > 0 ? key.slice(0, slash) : key).replaceAll("_", " ");
  return {title, label: slash > 0 ? (name) => name.slice(slash + 1) : null, own: true};
}
