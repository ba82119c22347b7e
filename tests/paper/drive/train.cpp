#include <atomic>
#include <iostream>

#include "base/error.h"
#include "config/method_of.h"
#include "config/parse.h"
#include "paper/drive/card.h"
#include "paper/drive/modes.h"
#include "rollout/kv_memory.h"
#include "train/opening/open_run.h"

namespace hone::paper {
namespace {

void print(const Json& line) {
  std::cout << line.dump() << std::endl;
}

// Thrown after a step, so that a run ends before it writes its weights.
struct Left {};

// A line a step; between steps the counts begin again.
class Lines final : public train::RunListener {
 public:
  Lines(std::int64_t named_step, std::int64_t last_step) : named_step_(named_step), last_step_(last_step) {}
  void on_step(const train::StepFacts& facts, std::int64_t /*total*/) override {
    Json line = {
        {"event", "step"}, {"step", facts.step}, {"loss", facts.loss}, {"tokens", facts.tokens_this_step}};
    line.update(json_of(counts()));
    if (facts.step == named_step_) line["names"] = names_launched();
    print(line);
    reset();
    if (facts.step == last_step_) throw Left();
  }

 private:
  std::int64_t named_step_, last_step_;  // 0: none
};

std::int64_t take_option(std::vector<std::string>& words, const std::string& option) {
  if (words.size() < 2 || words[0] != option) return 0;
  const std::int64_t value = std::stoll(words[1]);
  words.erase(words.begin(), words.begin() + 2);
  return value;
}

// Bytes that the plan counts for keys and values of a batch's completions, without those of prompts. 0 where
// nothing is sampled.
std::int64_t keys_of_completions(const train::OpenedRun& run) {
  if (!config::samples(run.plan.method)) return 0;
  rollout::GenerateOptions options;
  options.max_new_tokens = run.plan.policy.max_completion_length;
  options.share_prompt = true;
  const model::CausalLm& model = *run.model;
  const auto bytes = rollout::kv_bytes(model.config(), model.dtypes().linear, 1, options, model.device());
  return run.plan.policy.generation_batch_size * bytes.sample;
}

}  // namespace

int train_on_card(std::vector<std::string> words, at::Device card) {
  const std::int64_t named = take_option(words, "--names"), last = take_option(words, "--leave");
  base::require(!words.empty(), "paper_drive train", "a method");
  const auto method = config::find_method(words.front());
  base::require(method.has_value(), "paper_drive train", "a method, not " + words.front());
  config::Plan plan = config::parse_run(*method, {words.begin() + 1, words.end()});
  plan.device = card.str();
  Lines listener(named, last);
  const std::atomic<bool> stop = false;
  const auto run = train::open_run(plan, listener);
  Json opened = {
      {"event", "opened"}, {"planned", run->start.memory.device_total}, {"keys", keys_of_completions(*run)}};
  opened.update(json_of(counts()));
  print(opened);
  reset();
  try {
    train::begin_run(*run, listener, stop);
  } catch (const Left&) {
    // what follows is of the steps that were
  }
  const train::MemoryPlan& memory = run->start.memory;
  Json segments = Json::object();
  std::int64_t planned = memory.device_total;  // without what the allocator does not count
  for (const train::MemorySegment& segment : memory.segments) {
    if (segment.on_device) segments[segment.name] = segment.bytes;
    if (segment.name == train::kContextSegment) planned -= segment.bytes;
  }
  Json end = {{"event", "end"}, {"planned", planned}};
  end.update(allocator_peaks());
  end["segments"] = segments;
  print(end);
  return 0;
}

}  // namespace hone::paper
