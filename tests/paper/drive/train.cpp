#include <atomic>
#include <iostream>

#include "base/error.h"
#include "config/method_of.h"
#include "config/parse.h"
#include "paper/drive/card.h"
#include "paper/drive/modes.h"
#include "train/opening/open_run.h"

namespace hone::paper {
namespace {

void print(const Json& line) {
  std::cout << line.dump() << std::endl;
}

// A line a step; between steps the counts begin again.
class Lines final : public train::RunListener {
 public:
  explicit Lines(std::int64_t named_step) : named_step_(named_step) {}
  void on_step(const train::StepFacts& facts, std::int64_t /*total*/) override {
    Json line = {
        {"event", "step"}, {"step", facts.step}, {"loss", facts.loss}, {"tokens", facts.tokens_this_step}};
    line.update(json_of(counts()));
    if (facts.step == named_step_) line["names"] = names_launched();
    print(line);
    reset();
  }

 private:
  std::int64_t named_step_;
};

std::string take_option(std::vector<std::string>& words, const std::string& option) {
  if (words.size() < 2 || words[0] != option) return "";
  const std::string value = words[1];
  words.erase(words.begin(), words.begin() + 2);
  return value;
}

}  // namespace

int train_on_card(std::vector<std::string> words, at::Device card) {
  const std::string named = take_option(words, "--names");
  base::require(!words.empty(), "paper_drive train", "a method");
  const auto method = config::find_method(words.front());
  base::require(method.has_value(), "paper_drive train", "a method, not " + words.front());
  config::Plan plan = config::parse_run(*method, {words.begin() + 1, words.end()});
  plan.device = card.str();
  Lines listener(named.empty() ? 0 : std::stoll(named));
  const std::atomic<bool> stop = false;
  const auto run = train::open_run(plan, listener);
  Json opened = {{"event", "opened"}, {"planned", run->start.memory.device_total}};
  opened.update(json_of(counts()));
  print(opened);
  reset();
  train::begin_run(*run, listener, stop);
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
