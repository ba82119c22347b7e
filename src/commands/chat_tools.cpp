#include "commands/chat_tools.h"

#include <algorithm>
#include <map>

#include "base/strings/utf8.h"
#include "train/opening/tool_opening.h"

namespace hone::commands {

namespace {

using base::Json;

constexpr std::size_t kMostShown = 4'000;  // bytes of a result; the model reads all of it

std::string template_of(const std::string& model) {
  return "the chat template of " + model;
}

std::string shown_arguments(const Json& arguments) {
  return arguments.is_string() ? arguments.get<std::string>() : base::dump_json(arguments);
}

std::string text_member(const Json& message, const char* name) {
  const auto found = message.find(name);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

ChatTools::ChatTools(std::unique_ptr<tools::ToolPool> pool, const train::OpenedText& text,
                     const std::string& model, const Json& variables, std::vector<std::int64_t>& stop_ids)
    : tokenizer_(text.tokenizer),
      variables_(variables),
      pool_(std::move(pool)),
      notes_(pool_->notes()),
      chat_(train::acting_template(text, model, notes_)),
      parser_(tools::ResponseParser::open(tokenizer_, *chat_, template_of(model))),
      forms_(tokenizer_, *chat_, variables, true, template_of(model)),
      suffixes_(tokenizer_, *chat_, {.template_kwargs = variables, .stop_ids = {}}, template_of(model)),
      schemas_(Json::array()) {
  for (const tools::Tool& tool : pool_->tools("")) schemas_.push_back(tool.schema);
  for (const std::string& note : parser_.notes()) notes_.push_back("tools: " + note);
  for (const std::string& note : suffixes_.notes()) notes_.push_back("tools: " + note);
  for (const std::int32_t id : suffixes_.turn_ends()) {
    if (std::find(stop_ids.begin(), stop_ids.end(), id) == stop_ids.end()) stop_ids.push_back(id);
  }
}

tools::Turn ChatTools::read(std::span<const std::int32_t> prompt, std::span<const std::int32_t> drawn) const {
  return parser_.parse(tokenizer_.decode(prompt, false), tokenizer_.decode(drawn, false),
                       tokenizer_.decode(drawn, true), schemas_);
}

std::optional<std::vector<std::int32_t>> ChatTools::behind(const Json& messages, std::int32_t last_id) const {
  Json before = messages;
  before.erase(before.size() - 1);
  const auto rendered = [&](const Json& all, bool header) {
    return chat_
        ->render({.messages = all,
                  .tools = schemas_,
                  .template_kwargs = variables_,
                  .add_generation_prompt = header})
        .text;
  };
  const std::string old = rendered(before, false), now = rendered(messages, true);
  const std::string end = tokenizer_.decode(std::vector<std::int32_t>{last_id}, false);
  const std::size_t at = end.empty() ? std::string::npos : old.rfind(end);
  if (!now.starts_with(old) || at == std::string::npos) return std::nullopt;
  const std::size_t after = at + end.size();
  if (old.find_first_not_of(" \n", after) != std::string::npos) return std::nullopt;  // it is of another turn
  return tokenizer_.encode(now.substr(after), false).ids;
}

ChatTools::Results ChatTools::run(const tools::Turn& turn, std::int32_t last_id,
                                  const std::function<void(const std::string&)>& show) {
  std::map<std::uint64_t, std::size_t> calls;  // by ticket
  for (std::size_t i = 0; i < turn.calls.size(); ++i) {
    const tools::Call& call = turn.calls[i];
    show("-> " + call.name + " " + shown_arguments(call.arguments));
    calls[pool_->call("", -1, call.name, call.arguments)] = i;
  }
  Results out;
  std::vector<std::string> results(turn.calls.size());
  while (!calls.empty()) {
    for (const tools::Done& done : pool_->wait(true)) {
      const std::size_t call = calls.at(done.ticket);
      calls.erase(done.ticket);
      results[call] = done.text;
      show("<- " + turn.calls[call].name + (done.failed ? " failed: " : ": ") +
           base::cut_text(done.text, kMostShown));
      if (!done.note.empty()) out.notes.push_back(done.note);
    }
  }
  out.suffix = suffixes_.suffix(turn.calls, results, last_id);
  std::string reasoning = text_member(turn.message, "reasoning_content");
  if (reasoning.empty()) reasoning = text_member(turn.message, "thinking");
  std::vector<tools::Call> written = turn.calls;  // templates go through the arguments by name
  for (tools::Call& call : written) {
    if (!call.arguments.is_object()) call.arguments = {{"arguments", call.arguments}};
  }
  out.messages = Json::array({forms_.turn(written, text_member(turn.message, "content"), reasoning)});
  for (Json& result : forms_.results(turn.calls, results)) out.messages.push_back(std::move(result));
  return out;
}

}  // namespace hone::commands
