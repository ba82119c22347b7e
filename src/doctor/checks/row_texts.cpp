#include "doctor/checks/row_texts.h"

#include "doctor/checks/check_format.h"

namespace hone::doctor {

using base::Json;

namespace {

bool is_conversation(const Json& value) {
  return value.is_array() && !value.empty() && value[0].is_object();
}

std::string role_of(const Json& message) {
  for (const char* const name : {"role", "from"}) {
    const auto found = message.find(name);
    if (found == message.end() || !found->is_string()) continue;
    const std::string role = found->get<std::string>();
    if (role == "human") return "user";
    return role == "gpt" || role == "bot" || role == "model" ? "assistant" : role;
  }
  return "";
}

// The last turn of this role; empty: none.
std::optional<std::string> last_of(const Json& messages, const std::string& role) {
  std::optional<std::string> out;
  for (const Json& message : messages) {
    if (message.is_object() && role_of(message) == role) out = content_of(message);
  }
  return out;
}

std::optional<std::string> text_or_turn(const Json& row, const char* name, const std::string& role) {
  const auto found = row.find(name);
  if (found == row.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  return is_conversation(*found) ? last_of(*found, role) : std::nullopt;
}

void read_messages(const Json& messages, RowTexts& out) {
  for (const Json& message : messages) {
    if (!message.is_object()) continue;
    out.roles.push_back(role_of(message));
    if (out.roles.size() == 1 && out.roles[0] == "system") out.system = content_of(message);
    out.calls_tools = out.calls_tools || message.contains("tool_calls") || message.contains("function_call");
  }
  out.prompt = last_of(messages, "user");
  out.completion = last_of(messages, "assistant");
}

}  // namespace

std::vector<RowTexts> texts_of(const std::vector<FirstRow>& rows, const std::string& text_field) {
  std::vector<RowTexts> out;
  for (const FirstRow& one : rows) {
    RowTexts texts{.where = one.where, .row = &one.row};
    const Json& row = one.row;
    for (const char* const name : {"messages", "conversations"}) {
      const auto found = row.find(name);
      if (found != row.end() && is_conversation(*found) && texts.roles.empty()) read_messages(*found, texts);
    }
    if (texts.roles.empty()) {
      texts.prompt = text_or_turn(row, "prompt", "user");
      texts.completion = text_or_turn(row, "completion", "assistant");
      texts.chosen = text_or_turn(row, "chosen", "assistant");
      texts.rejected = text_or_turn(row, "rejected", "assistant");
      for (const char* const name : {"completion", "chosen"}) {
        const auto found = row.find(name);
        if (found == row.end() || !is_conversation(*found)) continue;
        texts.answer_role = role_of(found->back());
        for (const Json& message : *found)
          texts.calls_tools = texts.calls_tools || message.contains("tool_calls");
      }
      const auto text = row.find(text_field);
      if (!texts.completion && !texts.chosen && text != row.end() && text->is_string())
        texts.text = text->get<std::string>();
    }
    out.push_back(std::move(texts));
  }
  return out;
}

std::string trimmed_text(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  const auto end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

bool holds_word(const std::string& text, const std::string& word) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_part(text[at - 1]);
    const std::size_t after = at + word.size();
    if (begins && (after == text.size() || !is_part(text[after]))) return true;
  }
  return false;
}

std::string of_first(std::int64_t count, std::size_t whole, const char* noun) {
  return std::to_string(count) + " of the first " + format::counted(static_cast<std::int64_t>(whole), noun);
}

bool is_blank(const std::optional<std::string>& text) {
  return text && text->find_first_not_of(" \t\r\n") == std::string::npos;
}

}  // namespace hone::doctor
