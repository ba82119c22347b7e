#include "report/samples_file.h"

#include <cmath>
#include <sstream>
#include <string>

#include "base/json.h"

namespace hone::report {

using base::Json;

namespace {

Json sample_json(const train::SampleFacts& facts, std::size_t index) {
  const train::CompletionFacts& one = facts.completions[index];
  Json line = {{"step", facts.step}, {"index", index}, {"prompt", one.prompt}};
  if (!one.asked.empty()) line["asked"] = one.asked;
  line["completion"] = one.completion;
  line["truncated"] = one.truncated;
  line["tokens"] = one.tokens;
  for (std::size_t k = 0; k < facts.reward_names.size() && k < one.rewards.size(); ++k) {
    const std::string& name = facts.reward_names[k];
    line[line.contains(name) ? "reward " + name : name] =
        std::isfinite(one.rewards[k]) ? Json(one.rewards[k]) : Json();
  }
  return line;
}

bool is_sample(const Json& line) {
  const auto has = [&line](const char* name, auto is) { return line.contains(name) && (line[name].*is)(); };
  return line.is_object() && has("step", &Json::is_number_integer) && has("prompt", &Json::is_string) &&
         has("completion", &Json::is_string);
}

// What SamplesFile::first() has of a line.
void keep_first(const Json& line, std::optional<train::SampleFacts>& first) {
  const auto step = line["step"].get<std::int64_t>();
  if (first && first->step < step) return;
  if (!first || step < first->step) first = train::SampleFacts{.step = step};
  const Json asked = line.value("asked", Json()), truncated = line.value("truncated", Json());
  first->completions.push_back({.prompt = line["prompt"].get<std::string>(),
                                .asked = asked.is_string() ? asked.get<std::string>() : "",
                                .completion = line["completion"].get<std::string>(),
                                .truncated = truncated == Json(true)});
}

}  // namespace

SamplesFile::SamplesFile(base::fs::path path, std::int64_t first_step, bool evaluates_again)
    : path_(std::move(path)) {
  if (!base::fs::is_regular_file(path_)) return;
  std::string kept;
  std::istringstream lines(first_step > 0 ? base::read_text(path_) : std::string());
  for (std::string text; std::getline(lines, text);) {
    const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!is_sample(line)) continue;
    const auto step = line["step"].get<std::int64_t>();
    if (step > first_step || (evaluates_again && step == first_step)) continue;
    kept += text + "\n";
    keep_first(line, first_);
  }
  if (kept.empty()) {
    base::fs::remove(path_);
  } else {
    base::write_file_atomic(path_, kept);
  }
}

void SamplesFile::write(const train::SampleFacts& facts) {
  if (!file_) file_.emplace(path_);
  std::string lines;
  for (std::size_t i = 0; i < facts.completions.size(); ++i)
    lines += base::dump_json(sample_json(facts, i)) + "\n";
  file_->append(lines);
  if (!first_) first_ = facts;
}

}  // namespace hone::report
