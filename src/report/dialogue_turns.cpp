#include "report/dialogue_turns.h"

namespace hone::report {

using base::Json;

namespace {

const Json& part_of(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string plain_text(const Json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : base::dump_json(value);
}

void add_assistant(const Json& message, std::vector<DialogueTurn>& out) {
  for (const char* name : {"reasoning_content", "thinking"}) {
    const std::string text = plain_text(part_of(message, name));
    if (!text.empty()) out.push_back({.kind = DialogueTurn::Kind::kReasoning, .text = text});
  }
  const std::string said = plain_text(part_of(message, "content"));
  const Json& calls = part_of(message, "tool_calls");
  const bool acts = calls.is_array() && !calls.empty();
  if (!said.empty() || !acts) out.push_back({.kind = DialogueTurn::Kind::kSaid, .text = said});
  if (!acts) return;
  for (const Json& call : calls) {
    const Json& function = part_of(call, "function");
    out.push_back({.kind = DialogueTurn::Kind::kCall,
                   .text = plain_text(part_of(function, "arguments")),
                   .name = plain_text(part_of(function, "name"))});
  }
}

}  // namespace

Json calls_json(const std::vector<train::CallFacts>& calls) {
  Json out = Json::array();
  for (const train::CallFacts& call : calls) {
    Json one = {{"turn", call.turn}, {"name", call.name}, {"failed", call.failed}};
    if (call.is_unread) one["unread"] = call.unread;
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<DialogueTurn> dialogue_turns(const Json& messages, const Json& calls) {
  std::vector<DialogueTurn> out;
  std::size_t results = 0;
  const std::size_t known = calls.is_array() ? calls.size() : 0;
  if (!messages.is_array()) return out;
  for (const Json& message : messages) {
    if (part_of(message, "role") != "tool") {
      add_assistant(message, out);
      continue;
    }
    const bool failed = results < known && part_of(calls[results], "failed") == true;
    out.push_back({.kind = DialogueTurn::Kind::kResult,
                   .text = plain_text(part_of(message, "content")),
                   .name = plain_text(part_of(message, "name")),
                   .failed = failed});
    ++results;
  }
  for (; results < known; ++results) {
    const Json& call = calls[results];
    out.push_back({.kind = DialogueTurn::Kind::kResult,
                   .text = plain_text(part_of(call, "unread")),
                   .name = plain_text(part_of(call, "name")),
                   .failed = part_of(call, "failed") == true,
                   .unread = true});
  }
  return out;
}

}  // namespace hone::report
