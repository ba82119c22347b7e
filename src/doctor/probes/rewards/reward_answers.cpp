#include "doctor/probes/rewards/reward_answers.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "doctor/checks/check_format.h"
#include "doctor/probes/drawn_rows.h"
#include "rewards/code/code_reward.h"
#include "rewards/math/accuracy_reward.h"

namespace hone::doctor {

using base::Json;

namespace {

std::string strip(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  const auto end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

Json completion_of(const Json& prompt, const std::string& text) {
  if (!prompt.is_array()) return text;
  return Json::array({{{"role", "assistant"}, {"content", text}}});
}

}  // namespace

base::Json first_state(const train::RunView& run) {
  return {{"global_step", 0},
          {"max_steps", run.start.total_steps},
          {"epoch", 0.0},
          {"num_train_epochs", run.plan.num_train_epochs},
          {"train_batch_size", run.plan.per_device_train_batch_size},
          {"is_local_process_zero", true},
          {"is_world_process_zero", true},
          {"log_history", Json::array()}};
}

void set_mean(Answered& one) {
  one.none = 0;
  double sum = 0;
  for (const double value : one.values) {
    if (std::isnan(value)) {
      one.none += 1;
    } else {
      sum += value;
    }
  }
  const auto scored = static_cast<double>(static_cast<std::int64_t>(one.values.size()) - one.none);
  one.mean = scored > 0 ? sum / scored : rewards::kNone;
}

RewardRows::RewardRows(const train::RunView& run, const train::PolicyPrompts& prompts, std::size_t most)
    : run_(run), prompts_(prompts) {
  rows_ = draw_rows(prompts, most);
  if (rows_.empty()) return;
  const std::string read = run.text->tokenizer.decode(prompts.tokens[rows_.front()].ids, false);
  opens_thinking_ = std::string_view(strip(read)).ends_with("<think>");
}

RewardRows::RewardRows(const RewardRows& as, std::vector<std::size_t> places)
    : run_(as.run_), prompts_(as.prompts_), rows_(std::move(places)), opens_thinking_(as.opens_thinking_) {}

std::size_t RewardRows::next_other(std::size_t i, const std::string& column) const {
  const Json& own = row(i).columns.at(column);
  for (std::size_t step = 1; step < size(); ++step) {
    const std::size_t j = (i + step) % size();
    const Json& columns = row(j).columns;
    if (columns.contains(column) && !columns.at(column).is_null() && columns.at(column) != own) return j;
  }
  return i;
}

rewards::Request RewardRows::request(const Texts& completions, const RewardCall& call) const {
  rewards::Request out;
  out.trainer_state = first_state(run_);
  const std::size_t count = call.order.empty() ? size() : call.order.size();
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = call.order.empty() ? k : call.order[k];
    out.prompts.push_back(row(i).prompt);
    out.completions.push_back(completion_of(row(i).prompt, completions[i]));
    out.completion_ids.push_back(ids_of(completions[i]));
    for (const auto& [name, value] : row(i).columns.items()) {
      if (!out.columns.contains(name)) out.columns[name] = Json::array();
      const bool turned = name == call.rotated_column && !value.is_null();
      out.columns[name].push_back(turned ? row(next_other(i, name)).columns.at(name) : value);
    }
  }
  return out;
}

// An answer of no text is its end alone: a policy samples at least that, and functions read the first token.
std::vector<std::int32_t> RewardRows::ids_of(const std::string& text) const {
  std::vector<std::int32_t> out = run_.text->tokenizer.encode(text, false).ids;
  if (const auto end = run_.text->tokenizer.eos_id(); out.empty() && end) out.push_back(*end);
  return out;
}

bool RewardRows::has(const std::string& column) const {
  return !rows_.empty() && row(0).columns.contains(column);
}

// Of a column of test cases: programs that have the outputs.
std::optional<NamedTexts> RewardRows::gold_programs(const std::string& column) const {
  Texts out;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!has(column)) return std::nullopt;
    const auto program = rewards::answer_by_table(row(i).columns.value(column, Json()));
    if (!program) return std::nullopt;
    out.push_back(*program);
  }
  if (out.empty()) return std::nullopt;
  return NamedTexts{{kGoldProgram, out}};
}

NamedTexts RewardRows::gold_answers(const std::string& column) const {
  if (auto programs = gold_programs(column)) return *std::move(programs);
  Texts whole, bare;
  for (std::size_t i = 0; i < size(); ++i) {
    whole.push_back(strip(format::column_text(row(i).columns, column).value_or("")));
    bare.push_back(strip(rewards::after_hashes(whole.back())));
  }
  const auto around = [&bare](const std::string& before, const std::string& after) {
    Texts out;
    for (const std::string& text : bare) out.push_back(before + text + after);
    return out;
  };
  // What a template has opened in the prompt, no completion begins with.
  const std::string think = opens_thinking_ ? "" : "<think>";
  NamedTexts out = {{"gold", bare},
                    {"gold in \\boxed{}", around("\\boxed{", "}")},
                    {"gold after ####", around("#### ", "")},
                    {"gold in <answer>", around("<answer>", "</answer>")},
                    {kOneLine, around(think + "step by step</think>\\boxed{", "}")},
                    {kSeveralLines, around(think + "\nstep by step\n</think>\n\\boxed{", "}")},
                    {"gold in <answer> after <think>",
                     around(think + "\nstep by step\n</think>\n<answer>\n", "\n</answer>")}};
  if (whole != bare) out.insert(out.begin(), {kWhole, whole});
  return out;
}

Texts RewardRows::prompts() const {
  Texts out;
  for (std::size_t i = 0; i < size(); ++i) {
    const Json& prompt = row(i).prompt;
    std::string text;
    if (prompt.is_string()) text = prompt.get<std::string>();
    for (const Json& message : prompt.is_array() ? prompt : Json::array()) {
      if (message.contains("content") && message.at("content").is_string())
        text = message.at("content").get<std::string>();  // the last one
    }
    out.push_back(text);
  }
  return out;
}

std::int64_t RewardRows::tokens(const std::string& text) const {
  return static_cast<std::int64_t>(run_.text->tokenizer.encode(text, false).ids.size());
}

Answered ask(rewards::Reward& reward, const RewardRows& rows, const std::string& kind,
             const Texts& completions, const RewardCall& call) {
  const auto where = [&](std::size_t sample) {
    const std::size_t at = call.order.empty()           ? sample
                           : sample < call.order.size() ? call.order[sample]
                                                        : rows.size();
    return at < rows.size() ? rows.row(at).where : "sample " + std::to_string(sample);
  };
  Answered out{.kind = kind};
  rewards::Scores scores;
  try {
    scores = reward.score(rows.request(completions, call));
  } catch (const base::UserError& error) {
    out.error = error.text().found + (error.text().cause.empty() ? "" : "; " + error.text().cause);
    out.every_call = true;
    return out;
  }
  // Without a cause of its own the samples that failed say more: they name their rows.
  if (scores.broken && (scores.failures.empty() || !scores.broken->cause.empty())) {
    out.error = scores.broken->found + (scores.broken->cause.empty() ? "" : "; " + scores.broken->cause);
    return out;
  }
  out.values = scores.values;
  out.seconds = scores.seconds;
  set_mean(out);
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    // What fp32 does not hold is infinite to the run.
    if (std::isnan(out.values[i]) || std::isfinite(static_cast<float>(out.values[i]))) continue;
    out.failures.push_back(where(i) + ", " + kind + ": " + format::number(out.values[i]));
  }
  for (const rewards::Failure& failure : scores.failures) {
    out.failures.push_back(where(static_cast<std::size_t>(failure.sample)) + ", " + kind + ": " +
                           failure.what);
  }
  return out;
}

}  // namespace hone::doctor
