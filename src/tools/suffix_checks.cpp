#include "tools/suffix_checks.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings/utf8.h"

namespace hone::tools {
namespace {

using base::Json;
using Ids = std::vector<std::int32_t>;

constexpr const char* kTemplateFix = "use a template without that, by chat_template_path";

Call call(const char* name) {
  return {.name = name, .arguments = {{"city", "Rome"}, {"days", 2}}};
}

}  // namespace

struct SuffixChecks::Case {
  std::string name;
  std::string content;
  std::vector<Call> calls;
  std::vector<std::string> results;
  int rounds = 1;
  bool needed = true;  // else notes() says what differs
};

// "" when the turn and its suffix are the whole; else what differs.
std::string SuffixChecks::difference(const Case& one, const std::string& reasoning, bool& refused) const {
  Json messages = Json::array({{{"role", "user"}, {"content", "Which one?"}}});
  for (int round = 0; round < one.rounds; ++round) {
    if (round > 0)
      for (Json& each : forms_.results(one.calls, one.results)) messages.push_back(std::move(each));
    messages.push_back(forms_.turn(one.calls, one.content, reasoning));
  }
  Json with_results = messages;
  for (Json& each : forms_.results(one.calls, one.results)) with_results.push_back(std::move(each));
  std::string turn, whole;
  try {
    turn = forms_.render(messages, false);
    whole = forms_.render(with_results, true);
  } catch (const base::UserError&) {
    refused = true;
    return "";
  }

  Ids joined = forms_.up_to_turn_end(turn);
  const Ids suffix = forms_.suffix(one.calls, one.results);
  joined.insert(joined.end(), suffix.begin(), suffix.end());
  if (joined == forms_.encode(whole)) return "";
  const std::string made = forms_.tokenizer().decode(joined, false);
  const std::string full = forms_.tokenizer().decode(forms_.encode(whole), false);
  const auto [here, there] = std::mismatch(made.begin(), made.end(), full.begin(), full.end());
  if (here == made.end() && there == full.end()) return "the same text in other tokens";
  const auto at = static_cast<std::size_t>(here - made.begin());
  return forms_.place_of(with_results, at) + ": turn and suffix have " + characters_around(made, at) +
         ", the whole conversation " + characters_around(full, at);
}

void SuffixChecks::conversations() {
  std::string long_result;
  for (int i = 0; i < 300; ++i) long_result += "line " + std::to_string(i) + "\n";
  const std::vector<Case> cases = {
      {.name = "one call", .content = "", .calls = {call("first")}, .results = {"12"}},
      {.name = "two calls in one turn",
       .content = "",
       .calls = {call("first"), call("first")},
       .results = {"12", "x"}},
      // TRL's suffix names the first call only; Gemma 4 writes each result under the name of a call.
      {.name = "calls of two tools in one turn",
       .content = "",
       .calls = {call("first"), call("second")},
       .results = {"12", "x"},
       .needed = false},
      {.name = "two rounds of a call",
       .content = "",
       .calls = {call("first")},
       .results = {"12"},
       .rounds = 2},
      {.name = "an empty result", .content = "", .calls = {call("first")}, .results = {""}},
      {.name = "a long result", .content = "", .calls = {call("first")}, .results = {long_result}},
      // Some templates put the words behind the call. What was sampled stays as it is.
      {.name = "words before a call",
       .content = "I look it up.",
       .calls = {call("first")},
       .results = {"12"},
       .needed = false}};
  bool only_with = false, only_without = false;
  for (const Case& one : cases) {
    bool refused = false;
    const std::string without = difference(one, "", refused);
    const std::string with = difference(one, "A short thought.", refused);
    if (refused) notes_.push_back("the chat template refuses a conversation with " + one.name);
    if (!without.empty() && !with.empty() && !one.needed) {
      notes_.push_back("in a conversation with " + one.name + ", " + without);
      continue;
    }
    if (!without.empty() && !with.empty())
      throw base::UserError({.where = where_,
                             .expected = "a turn with calls that stays as it was once results follow",
                             .found = "in a conversation with " + one.name + ", " + without,
                             .cause = "a template that changes earlier turns, or the text between two turns",
                             .fix = kTemplateFix});
    only_with |= !without.empty();
    only_without |= !with.empty();
  }
  if (only_with)
    notes_.emplace_back("the chat template writes a turn without reasoning otherwise once results follow");
  if (only_without)
    notes_.emplace_back("the chat template writes a turn with reasoning otherwise once results follow");
}

Ids SuffixChecks::turn_ends() const {
  const std::vector<Call> calls = {call("first")};
  const Json turn = Json::array({{{"role", "user"}, {"content", "dummy"}}, forms_.turn(calls, "", "")});
  const Ids prefix = forms_.up_to_turn_end(forms_.render(turn, false));
  const Ids suffix = forms_.suffix(calls, {"12"});
  const bool ends = !prefix.empty() && forms_.is_special(prefix.back());
  if (!ends && (suffix.empty() || !forms_.is_special(suffix.front())))
    throw base::UserError(
        {.where = where_,
         .expected = "a turn with calls that ends in a control token",
         .found = characters_around(forms_.render(turn, false), std::string::npos),
         .cause = "a template whose turns end in ordinary text: sampling would not stop there",
         .fix = kTemplateFix});
  const std::int32_t end = ends ? prefix.back() : suffix.front();
  const auto next = std::ranges::find_if(suffix, [this](std::int32_t id) { return !forms_.is_white(id); });
  if (ends && next != suffix.end() && *next == end)
    throw base::UserError({.where = where_,
                           .expected = "one control token at the end of a turn with calls",
                           .found = "'" + forms_.text_of(end) + "' at its end and again before the results",
                           .cause = "a template that closes a turn twice",
                           .fix = kTemplateFix});
  return {end};
}

void SuffixChecks::stops(const Ids& ends, const Ids& stop_ids) const {
  for (const std::int32_t end : ends) {
    if (std::ranges::find(stop_ids, end) != stop_ids.end()) continue;
    throw base::UserError({.where = where_,
                           .expected = "sampling that stops where a turn with calls ends",
                           .found = "'" + forms_.text_of(end) + "' (" + std::to_string(end) +
                                    ") is none of the ids that end sampling",
                           .cause = "generation_config.json names other ids than the chat template writes",
                           .fix = "add the id to eos_token_id of generation_config.json"});
  }
}

void SuffixChecks::control_tokens() const {
  std::string planted = "a";
  for (const std::string& token : forms_.control_tokens()) planted += token + " b";
  const auto count = [this](const std::string& result) {
    const Ids ids = forms_.suffix({call("first")}, {result});
    return std::ranges::count_if(ids, [this](std::int32_t id) { return forms_.is_control(id); });
  };
  if (count(planted) == count("a b")) return;
  throw base::UserError(
      {.where = where_,
       .expected = "a tokenizer that can encode the control tokens of a result as ordinary text",
       .found = "control tokens in the ids of a result",
       .cause = "a vocabulary that has them as ordinary pieces too",
       .fix = "say tool_text_control_tokens: as_is, and trust what the tools return"});
}

}  // namespace hone::tools
