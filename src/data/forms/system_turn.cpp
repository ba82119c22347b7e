#include "data/forms/system_turn.h"

namespace hone::data {
namespace {

using base::Json;

// False where `column` is no conversation.
bool insert_into(Json& row, const char* column) {
  const auto turns = row.find(column);
  if (turns == row.end() || !turns->is_array() || turns->empty() || !turns->front().is_object()) return false;
  const bool named_from = turns->front().contains("from");
  const char* role = named_from ? "from" : "role";
  if (turns->front().value(role, Json()) == "system") return true;
  turns->insert(turns->begin(), Json{{role, "system"}, {named_from ? "value" : "content", ""}});
  return true;
}

}  // namespace

void insert_empty_system_turn(Json& row) {
  for (const char* column : {"messages", "conversations", "prompt"}) {
    if (insert_into(row, column)) return;
  }
  for (const char* column : {"chosen", "rejected"}) insert_into(row, column);
}

bool knows_system_turns(std::string_view chat_template) {
  return chat_template.find("system") != std::string_view::npos ||
         chat_template.find("<|im_start|>") != std::string_view::npos;
}

}  // namespace hone::data
