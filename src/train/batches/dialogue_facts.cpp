#include "train/batches/dialogue_facts.h"

#include <algorithm>
#include <span>

namespace hone::train {

using base::Json;

namespace {

// Results are read in the order of the calls, those of a turn all or not at all: so the unread ones are the last.
std::vector<CallFacts> calls_of(const RolloutSample& sample) {
  const auto read = std::count_if(sample.messages.begin(), sample.messages.end(),
                                  [](const Json& message) { return message.value("role", "") == "tool"; });
  std::vector<CallFacts> out;
  for (const ToolCall& call : sample.calls) {
    const bool is_unread = std::ssize(out) >= read;
    out.push_back({.turn = call.turn,
                   .name = call.name,
                   .arguments = base::dump_json(call.arguments),
                   .failed = call.failed,
                   .seconds = call.seconds,
                   .is_unread = is_unread,
                   .unread = is_unread ? call.result : ""});
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

void add_dialogue(CompletionFacts& to, const RolloutSample& sample, const text::Tokenizer& tokenizer,
                  const tools::ResponseParser* parser) {
  to.calls = calls_of(sample);
  if (sample.messages.is_null()) return;
  to.messages = sample.messages;
  to.spans = spans_of(sample, tokenizer);
  if (parser == nullptr) return;
  // A call is looked for in what the model drew, not in what it was given.
  to.opens_call = std::any_of(to.spans.begin(), to.spans.end(), [&](const Json& span) {
    return span[1].get<bool>() && parser->opens_call(span[0].get<std::string>());
  });
}

}  // namespace hone::train
