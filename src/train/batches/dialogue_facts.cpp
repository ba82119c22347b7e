#include "train/batches/dialogue_facts.h"

#include <algorithm>
#include <span>

namespace hone::train {

using base::Json;

namespace {

// Results are read in the order of the calls, those of a turn all or not at all: so the unread ones are the last.
Json calls_of(const RolloutSample& sample) {
  const auto read = std::count_if(sample.messages.begin(), sample.messages.end(),
                                  [](const Json& message) { return message.value("role", "") == "tool"; });
  Json out = Json::array();
  for (const ToolCall& call : sample.calls) {
    Json one = {{"turn", call.turn}, {"name", call.name}, {"failed", call.failed}};
    if (std::ssize(out) >= read) one["unread"] = call.result;
    out.push_back(std::move(one));
  }
  return out;
}

Json spans_of(const RolloutSample& sample, const text::Tokenizer& tokenizer) {
  const std::span<const std::int32_t> ids = sample.ids;
  Json out = Json::array();
  std::size_t at = 0;
  const auto add = [&](std::size_t end, bool drawn) {
    if (end > at) out.push_back({tokenizer.decode(ids.subspan(at, end - at), false), drawn});
    at = end;
  };
  for (const GivenTokens& given : sample.given) {
    add(static_cast<std::size_t>(given.begin), true);
    add(static_cast<std::size_t>(given.end), false);
  }
  add(ids.size(), true);
  return out;
}

}  // namespace

void add_dialogue(CompletionFacts& to, const RolloutSample& sample, const text::Tokenizer& tokenizer) {
  if (sample.messages.is_null()) return;
  to.messages = sample.messages;
  to.shown_calls = calls_of(sample);
  to.spans = spans_of(sample, tokenizer);
}

}  // namespace hone::train
