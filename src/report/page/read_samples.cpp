#include "report/page/read_samples.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "report/page/read_metrics.h"
#include "report/page/spread.h"

namespace hone::report {

using base::Json;

namespace {

constexpr std::size_t kLeastBytes = 200;  // of a completion
constexpr std::size_t kRewardNameBytes = 200;

std::string sample_text(const Json& value, std::size_t most) {
  return base::printable(base::cut_text(value.get_ref<const std::string&>(), most));
}

bool has_text(const Json& record, const char* name) {
  return record.contains(name) && record[name].is_string();
}

Json rewards_of(const Json& record) {
  Json out = Json::object();
  for (const auto& [name, value] : record.items()) {
    const bool ours = name == "step" || name == "index" || name == "tokens";
    if (!ours && (value.is_number() || value.is_null()))
      out[base::printable(base::cut_text(name, kRewardNameBytes))] = value;
  }
  return out;
}

struct Lines {
  std::map<std::int64_t, std::vector<Json>> steps;
  std::int64_t skipped = 0;
};

Lines read_lines(const base::fs::path& path) {
  Lines out;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    Json record = read_record(line);
    const bool good = record.is_object() && record.contains("step") && record["step"].is_number_integer() &&
                      has_text(record, "prompt") && has_text(record, "completion");
    if (good) {
      const auto step = record["step"].get<std::int64_t>();
      out.steps[step].push_back(std::move(record));
    } else {
      ++out.skipped;
    }
  }
  return out;
}

}  // namespace

Json read_samples(const base::fs::path& path, const SamplesLimits& limits) {
  const Lines lines = read_lines(path);
  if (lines.steps.empty()) return nullptr;
  std::vector<const std::pair<const std::int64_t, std::vector<Json>>*> steps;
  std::size_t most_prompts = 0;
  for (const auto& step : lines.steps) {
    steps.push_back(&step);
    most_prompts = std::max(most_prompts, step.second.size());
  }
  const std::vector<std::size_t> places = spread(steps.size(), limits.steps);
  const std::size_t shown = std::min(most_prompts, limits.prompts);
  const std::size_t each =
      std::clamp(limits.bytes / (places.size() * shown), std::min(kLeastBytes, limits.completion_bytes),
                 limits.completion_bytes);
  Json prompts = Json::array(), out_steps = Json::array();
  std::map<std::string, std::size_t> known;
  for (const std::size_t place : places) {
    Json rows = Json::array();
    for (const Json& record : steps[place]->second) {
      if (rows.size() >= limits.prompts) break;
      const std::string prompt =
          sample_text(record[has_text(record, "asked") ? "asked" : "prompt"], limits.prompt_bytes);
      const auto [at, is_new] = known.try_emplace(prompt, prompts.size());
      if (is_new) prompts.push_back(prompt);
      rows.push_back({at->second, sample_text(record["completion"], each),
                      record.value("truncated", Json()) == Json(true), rewards_of(record)});
    }
    out_steps.push_back({{"step", steps[place]->first}, {"completions", std::move(rows)}});
  }
  return {{"prompts", std::move(prompts)},
          {"all_steps", steps.size()},
          {"all_prompts", most_prompts},
          {"skipped", lines.skipped},
          {"steps", std::move(out_steps)}};
}

}  // namespace hone::report
