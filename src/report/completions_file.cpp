#include "report/completions_file.h"

#include <fmt/format.h>

#include <cmath>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "report/dialogue_turns.h"
#include "train/saves/run_folder.h"

namespace hone::report {

using base::Json;

namespace {

// Of two rewards with one name, or one named as another column, none is lost.
std::string free_key(const Json& line, const std::string& name) {
  std::string key = name;
  for (int i = 2; line.contains(key); ++i) key = fmt::format("{}_{}", name, i);
  return key;
}

Json line_of(const train::RolloutFacts& facts, const train::CompletionFacts& completion) {
  const bool acts = !completion.messages.is_null();
  Json line = {{"step", facts.step},
               {"prompt", completion.prompt},
               {"completion", acts ? completion.messages : Json(completion.completion)}};
  if (acts) {
    line["calls"] = calls_json(completion.calls);
    line["spans"] = completion.spans;
  }
  for (std::size_t i = 0; i < facts.reward_names.size(); ++i) {
    const double reward = completion.rewards.at(i);
    line[free_key(line, facts.reward_names[i])] = std::isnan(reward) ? Json() : Json(reward);
  }
  for (const auto& [name, value] : completion.extra) line[free_key(line, name)] = value;
  line[free_key(line, "advantage")] = completion.advantage;
  line[free_key(line, "truncated")] = completion.truncated;
  return line;
}

}  // namespace

CompletionsFiles::CompletionsFiles(const base::fs::path& output_dir, std::int64_t first_step)
    : folder_(output_dir / train::kCompletionsFolder) {
  std::error_code none;
  std::vector<base::fs::path> later;
  for (const auto& entry : base::fs::directory_iterator(folder_, none)) {
    const auto step = train::completions_step(entry.path());
    if (step && *step > first_step) later.push_back(entry.path());
  }
  for (const auto& path : later) base::fs::remove(path, none);
}

void CompletionsFiles::write(const train::RolloutFacts& facts) {
  if (facts.step != step_) text_.clear();
  step_ = facts.step;
  for (const auto& completion : facts.completions)
    text_ += base::dump_json(line_of(facts, completion)) + "\n";
  std::error_code failed;
  base::fs::create_directories(folder_, failed);
  if (failed) {
    throw base::UserError({.where = folder_.string(),
                           .expected = "a folder for the completions",
                           .found = failed.message(),
                           .cause = "",
                           .fix = "free some space, or name another output_dir"});
  }
  base::write_file_atomic(folder_ / train::completions_name(facts.step), text_);
}

}  // namespace hone::report
