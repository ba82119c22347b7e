#include "report/terminal/start_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/files/file.h"
#include "base/gpu_reports.h"
#include "base/strings/plural.h"
#include "report/terminal/text_width.h"
#include "report/terminal/wrap_text.h"

namespace hone::report {

namespace {

// A text that begins with "rows" or "pairs", of one: "row dropped", "pair has the same tokens".
std::string of_count(std::int64_t count, std::string_view text) {
  std::string out(text);
  if (count != 1) return out;
  const auto change = [&out](std::string_view from, std::string_view to) {
    const std::size_t at = out.find(from);
    if (at != std::string::npos) out.replace(at, from.size(), to);
  };
  for (const std::string_view noun : {"rows", "pairs"}) change(noun, noun.substr(0, noun.size() - 1));
  change("lost their", "lost its");
  change("when they were", "when it was");
  change("never have", "never has");
  change("pair have", "pair has");
  change("both sides: they have", "both sides: it has");
  return out;
}

constexpr std::size_t kExampleBytes = 800;  // of the shown example; a page is for reading

double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string full_lines(const train::TrainedFacts& facts) {
  return fmt::format(
      "trained   {}: {} parameters, {:.2f} % of {}\n          weights in float32 ({}), the products' copy beside "
      "them\n",
      fmt::join(facts.whole, ", "), human_count(facts.parameters),
      percent(facts.parameters, facts.base_parameters), human_count(facts.base_parameters),
      human_bytes(facts.bytes));
}

std::string trained_lines(const train::TrainedFacts& facts) {
  if (facts.full) return full_lines(facts);
  std::string out = fmt::format(
      "trained   {} {}, {} parameters ({}), {:.2f} % of {}\n          LoRA on {} {}: {}\n",
      human_count(facts.tensors), base::plural(facts.tensors, "tensor"), human_count(facts.parameters),
      human_bytes(facts.bytes), percent(facts.parameters, facts.base_parameters + facts.parameters),
      human_count(facts.base_parameters), facts.modules_matched,
      base::plural(facts.modules_matched, "linear"), fmt::join(facts.modules, ", "));
  if (facts.adapts_embedding) out += "          LoRA on the embedding\n";
  if (!facts.whole.empty()) out += fmt::format("          in full: {}\n", fmt::join(facts.whole, ", "));
  if (facts.unties_head) {
    out +=
        "          the head is tied to the embedding: they are trained apart, and a merged model has a head of its "
        "own\n";
  }
  if (facts.token_rows > 0) {
    out += fmt::format("          {} {} of the embedding{}\n", facts.token_rows,
                       facts.token_rows == 1 ? "row" : "rows",
                       facts.tied_head ? ", and of the head, which is tied to it" : "");
  }
  if (!facts.base_kind.empty()) {
    out += fmt::format("base      {}: {} in memory; the adapter is float32\n", facts.base_kind,
                       human_bytes(facts.base_bytes));
  }
  return out;
}

// A table of the plan's segments, then which form and level run and why.
std::string memory_lines(const train::MemoryPlan& plan) {
  std::vector<std::pair<std::string, std::int64_t>> rows;
  for (const auto& segment : plan.segments)
    rows.emplace_back(segment.name + (segment.on_device ? ", on the device" : ""), segment.bytes);
  if (plan.device_total > 0) rows.emplace_back("total on the host", plan.host_total);
  rows.emplace_back(plan.device_total > 0 ? "total on the device" : "total", plan.total);
  if (plan.limit.bytes > 0) rows.emplace_back(plan.limit.is_set ? "memory_limit" : "free", plan.limit.bytes);
  std::size_t name_width = 0, number_width = 0;
  std::vector<std::string> numbers;
  for (const auto& [name, bytes] : rows) {
    numbers.push_back(base::gigabytes(bytes));
    name_width = std::max(name_width, name.size());
    number_width = std::max(number_width, numbers.back().size());
  }
  std::string out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += fmt::format("{:<10}{:<{}}  {:>{}}\n", i == 0 ? "memory" : "", rows[i].first, name_width,
                       numbers[i], number_width);
  }
  out += fmt::format("          {}\n          {}\n", plan.why_recompute, plan.why_layer);
  if (!plan.why_savings.empty()) out += fmt::format("          {}\n", plan.why_savings);
  return out;
}

// Which card, with what; then what is slower there than it will be, and how far GPUs were tried.
std::string device_lines(const train::DeviceFacts& facts) {
  if (facts.name.empty()) return "";
  std::string out = "device    " + facts.name + "\n";
  if (!facts.driver.empty()) out += "          " + facts.driver + "\n";
  if (!facts.memory.empty()) out += "          " + facts.memory + "\n";
  if (!facts.reference_forms.empty())
    out += fmt::format("          in reference form: {}\n", fmt::join(facts.reference_forms, ", "));
  if (*base::kCudaStanding != '\0') out += fmt::format("          {}\n", base::kCudaStanding);
  return out;
}

std::string product_line(const train::ProductFacts& facts) {
  if (facts.kernels.empty()) return "";
  std::string out =
      fmt::format("products  {} kernels, {}: {:.0f} GFLOP/s", facts.kernels, facts.precision, facts.gflops);
  if (facts.limit > 0)
    out += fmt::format(", {:.0f} % of what these instructions can do here", 100 * facts.gflops / facts.limit);
  out += fmt::format("; {}: {:.0f}", facts.other_precision, facts.other_gflops);
  if (!facts.held_to.empty()) out += "; held to " + facts.held_to;
  return out + "\n";
}

// A line only for what happened, so that a clean set stays one line. `first`: before the number of rows.
// `examined`: the doctor says that, with its cause.
std::string method_lines(const train::ExampleStartFacts& facts, std::string_view first, bool examined) {
  const data::DataFacts& data = facts.data;
  std::string out =
      fmt::format("data      {}{} {}, {} tokens, {} of them targets ({:.1f} %); mean {:.0f}, longest {}\n",
                  first, human_count(data.kept), base::plural(data.kept, "row"), human_count(data.tokens),
                  human_count(data.supervised_tokens), percent(data.supervised_tokens, data.tokens),
                  data.mean_length, data.longest);
  const auto line = [&out, examined](std::int64_t count, std::string_view text) {
    if (count > 0 && !examined)
      out += fmt::format("          {} {}\n", human_count(count), of_count(count, text));
  };
  if (facts.packed_rows != data.kept)
    out += fmt::format("          {} {}\n", human_count(facts.packed_rows),
                       base::plural(facts.packed_rows, "packed row") + " (" + facts.packing + ")");
  line(data.rows_cut, fmt::format("rows cut at max_length ({} {} lost)", human_count(data.tokens_cut),
                                  base::plural(data.tokens_cut, "token")));
  line(data.rows_too_long, "rows dropped: longer than max_length");
  line(data.rows_without_target, "rows dropped: no target left in them");
  line(data.rows_losing_eos,
       "rows lost their end-of-sequence token when they were cut: the model will not learn to stop there");
  line(data.rows_without_eos_target, "rows never have the end of sequence as a target");
  line(data.prompt_boundary_mismatches,
       "rows whose prompt is tokenized differently when its completion "
       "follows");
  return out;
}

constexpr double kLengthBias = 1.2;  // PREF-02: a fifth longer on average

std::string method_lines(const train::PreferenceStartFacts& facts, std::string_view first, bool examined) {
  const data::PreferenceFacts& data = facts.data;
  std::string out = fmt::format(
      "data      {}{} {}, {} tokens, {} of them in completions; chosen {:.0f} and rejected {:.0f} on "
      "average, longest sequence {}\n",
      first, human_count(data.kept), base::plural(data.kept, "pair"), human_count(data.tokens),
      human_count(data.completion_tokens), data.mean_chosen, data.mean_rejected, data.longest);
  const auto line = [&out, examined](std::int64_t count, std::string_view text) {
    if (count > 0 && !examined)
      out += fmt::format("          {} {}\n", human_count(count), of_count(count, text));
  };
  if (data.implicit && !facts.reference.empty())
    out += "          the prompt is the longest common prefix of chosen and rejected\n";
  line(data.equal, "pairs have the same tokens on both sides: they have no gradient (PREF-01)");
  line(data.prompts_too_long, "pairs dropped: the prompt fills max_length");
  line(data.too_long, "pairs dropped: one of the two is longer than max_length");
  line(data.pairs_cut, "pairs cut at max_length");
  line(data.boundary_mismatches, "pairs whose prompt is tokenized differently when a completion follows");
  const auto [shorter, longer] = std::minmax(data.mean_chosen, data.mean_rejected);
  if (longer > kLengthBias * shorter && !examined) {
    out += fmt::format("          {} completions are {:.0f} % longer: the model may learn length (PREF-02)\n",
                       data.mean_chosen > data.mean_rejected ? "chosen" : "rejected",
                       100 * (longer / std::max(shorter, 1.0) - 1));
  }
  if (facts.eval_pairs > 0)
    out += fmt::format("          evaluated on {} {}\n", human_count(facts.eval_pairs),
                       base::plural(facts.eval_pairs, "pair"));
  out += "loss      " + facts.loss + "\n";
  if (!facts.head.empty()) out += "head      " + facts.head + "\n";
  return facts.reference.empty() ? out : out + "reference " + facts.reference + "\n";
}

std::string method_lines(const train::UnpairedStartFacts& facts, std::string_view first, bool /*examined*/) {
  const data::UnpairedFacts& data = facts.data;
  std::string out = fmt::format(
      "data      {}{} {}, {} desirable and {} not; {} tokens, {} of them in completions, longest "
      "sequence {}\n",
      first, human_count(data.kept), base::plural(data.kept, "completion"), human_count(data.desirable),
      human_count(data.kept - data.desirable), human_count(data.tokens), human_count(data.completion_tokens),
      data.longest);
  const auto line = [&out](std::int64_t count, std::string_view text) {
    if (count > 0) out += fmt::format("          {} {}\n", human_count(count), of_count(count, text));
  };
  if (data.paired)
    out += "          from pairs: for each thousand, all chosen completions, then all rejected ones\n";
  line(data.prompts_too_long, "rows dropped: the prompt fills max_length");
  line(data.rows_cut, "rows cut at max_length");
  line(data.boundary_mismatches, "rows whose prompt is tokenized differently when its completion follows");
  if (facts.eval_rows > 0)
    out += fmt::format("          evaluated on {} {}\n", human_count(facts.eval_rows),
                       base::plural(facts.eval_rows, "row"));
  return out + "loss      " + facts.loss + "\nreference " + facts.reference + "\n";
}

// What is sampled, how it is scored, what is made of the scores.
std::string method_lines(const train::PolicyStartFacts& facts, std::string_view first, bool /*examined*/) {
  std::string out =
      fmt::format("data      {}{} {}, the longest of {} {}\n", first, human_count(facts.prompts),
                  base::plural(facts.prompts, "prompt"), human_count(facts.longest_prompt),
                  base::plural(facts.longest_prompt, "token"));
  if (!facts.evaluation.empty()) out += "          evaluated on " + facts.evaluation + "\n";
  const std::int64_t groups =
      facts.num_generations == 0 ? 0 : facts.generation_batch_size / facts.num_generations;
  std::string when = " at a time";
  if (facts.steps_per_batch == 1) when = " a step";
  if (facts.steps_per_batch > 1) when = fmt::format(", trained on for {} steps", facts.steps_per_batch);
  out += fmt::format("sampling  {} {} x {} {}{}\n", human_count(groups), base::plural(groups, "prompt"),
                     facts.num_generations, base::plural(facts.num_generations, "completion"), when);
  if (!facts.sampling.empty()) out += "          " + facts.sampling + "\n";
  if (!facts.reward_names.empty()) out += fmt::format("rewards   {}\n", fmt::join(facts.reward_names, ", "));
  if (!facts.loss.empty()) out += "loss      " + facts.loss + "\n";
  return out;
}

// Cut at `most` bytes, never inside a UTF-8 character.
std::string clip(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

std::string example_lines(const train::StartFacts& facts, const Terminal& terminal) {
  std::string body;
  std::size_t left = kExampleBytes;
  for (const auto& piece : facts.example) {
    if (left == 0) break;
    const std::string text = clip(visible_controls(piece.text), left);
    left -= std::min(left, text.size());
    if (!piece.supervised) {
      body += terminal.dim(text);
    } else {
      body += terminal.color ? terminal.green(text) : "⟦" + text + "⟧";
    }
  }
  const bool has_targets = std::any_of(facts.example.begin(), facts.example.end(),
                                       [](const train::ColoredPiece& piece) { return piece.supervised; });
  const std::string targets = "targets are " + (terminal.color ? terminal.green("green") : "in ⟦⟧");
  std::string out = "example   " + (has_targets ? targets : "a prompt as the model reads it") + "\n";
  std::size_t begin = 0;
  while (begin <= body.size()) {
    const std::size_t end = std::min(body.find('\n', begin), body.size());
    out += "          | " + body.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return out;
}

}  // namespace

namespace {

// Lines that are wider than the terminal, broken at spaces below their own text. Lines with colors stay: they are the example.
std::string fitted(const std::string& page, const Terminal& terminal) {
  constexpr std::size_t kOwnText = 10;
  const std::size_t columns = page_columns(terminal.columns);
  std::string out;
  for (std::size_t begin = 0; begin < page.size();) {
    const std::size_t end = std::min(page.find('\n', begin), page.size());
    const std::string line = page.substr(begin, end - begin);
    begin = end + 1;
    const bool fits = static_cast<std::size_t>(columns_of(line)) <= columns;
    const bool plain =
        line.find('\x1b') == std::string::npos && line.size() > kOwnText && line[kOwnText] != '|';
    out += terminal.columns <= 0 || fits || !plain
               ? line
               : line.substr(0, kOwnText) +
                     wrap_text(std::string_view(line).substr(kOwnText), kOwnText, columns);
    out += '\n';
  }
  return out;
}

}  // namespace

std::string start_page(const train::StartFacts& facts, const Terminal& terminal, bool examined) {
  std::string out = trained_lines(facts.trained);
  const char* const first = facts.streamed ? "streamed; of the first " : "";
  out += std::visit([&](const auto& method) { return method_lines(method, first, examined); }, facts.method);
  if (!facts.scored.empty()) out += "evaluated " + facts.scored + "\n";
  if (!facts.samples.empty()) out += "samples   " + facts.samples + "\n";
  if (!facts.example.empty()) out += example_lines(facts, terminal);
  if (!facts.memory.segments.empty()) out += memory_lines(facts.memory);
  out += device_lines(facts.device) + product_line(facts.products);
  out += fmt::format("run       {} {} ({} an epoch), {} of warm-up, into {}\n",
                     human_count(facts.total_steps), base::plural(facts.total_steps, "step"),
                     human_count(facts.steps_per_epoch), facts.warmup_steps, facts.output_dir);
  if (!facts.optimizer.empty()) out += "optimizer " + facts.optimizer + "\n";
  if (!facts.resumed_from.empty()) {
    out += fmt::format("resumed   after step {} from {}\n", facts.first_step, facts.resumed_from);
    if (facts.first_step >= facts.total_steps) {
      out += fmt::format("          nothing is left to do: the run has {} {}; only its result is written\n",
                         facts.total_steps, base::plural(facts.total_steps, "step"));
    }
  }
  for (const auto& note : facts.notes) out += "note      " + note + "\n";
  return fitted(out, terminal);
}

}  // namespace hone::report
