#include "serve/openai/messages.h"

#include "base/error.h"

namespace hone::serve::openai {

namespace {

// Parts of a message's content: text alone.
std::string text_of_parts(const base::Json& parts, const std::string& where) {
  std::string out;
  for (const base::Json& part : parts) {
    if (part.is_string()) {
      out += part.get<std::string>();
      continue;
    }
    if (!part.is_object() || part.value("type", base::Json()) != "text" ||
        !part.value("text", base::Json()).is_string())
      throw Refusal(400,
                    where + ".content may hold parts of type \"text\" alone: the model reads nothing else",
                    "messages");
    out += part["text"].get<std::string>();
  }
  return out;
}

// Templates write arguments as JSON by themselves.
void read_calls(base::Json& message, const std::string& where) {
  base::Json& calls = message["tool_calls"];
  if (!calls.is_array()) throw Refusal(400, where + ".tool_calls must be a list", "messages");
  for (base::Json& call : calls) {
    if (!call.is_object() || !call.value("function", base::Json()).is_object())
      throw Refusal(400, where + ".tool_calls must hold objects with a function", "messages");
    base::Json& function = call["function"];
    const base::Json given = function.value("arguments", base::Json());
    if (!given.is_string()) continue;
    try {
      base::Json arguments = base::parse_json(given.get<std::string>(), where);
      if (arguments.is_object()) function["arguments"] = std::move(arguments);
    } catch (const base::UserError&) {
      // A model may have written anything: the template gets the text.
    }
  }
}

base::Json read_messages(Fields& fields) {
  base::Json messages = fields.value("messages");
  if (!messages.is_array() || messages.empty()) fields.refuse("messages", "a list of messages");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    base::Json& one = messages[i];
    const std::string where = "messages[" + std::to_string(i) + "]";
    if (!one.is_object() || !one.value("role", base::Json()).is_string())
      throw Refusal(400, where + " must be an object with a role", "messages");
    const base::Json content = one.value("content", base::Json());
    if (content.is_array()) {
      one["content"] = text_of_parts(content, where);
    } else if (content.is_null()) {
      one["content"] = "";
    } else if (!content.is_string()) {
      throw Refusal(400, where + ".content must be a text or a list of parts", "messages");
    }
    if (one.contains("tool_calls")) {
      if (one["tool_calls"].is_null()) {
        one.erase("tool_calls");
      } else {
        read_calls(one, where);
      }
    }
  }
  return messages;
}

base::Json read_tools(const Served& served, Fields& fields) {
  base::Json tools = fields.value("tools");
  if (!tools.is_null() && !tools.is_array()) fields.refuse("tools", "a list");
  for (const base::Json& one : tools) {
    if (!one.is_object() || !one.value("function", base::Json()).is_object() ||
        !one["function"].value("name", base::Json()).is_string())
      throw Refusal(400, "tools must hold objects with a function that has a name", "tools");
  }
  const base::Json choice = fields.value("tool_choice");
  if (!choice.is_null() && choice != "auto" && choice != "none")
    throw Refusal(400, "tool_choice is not supported but as \"auto\" or \"none\": hone does not force a call",
                  "tool_choice", "unsupported_parameter");
  fields.neutral("parallel_tool_calls", true, "the model decides how many calls a turn has");
  if (tools.empty() || choice == "none") return {};
  if (served.parser == nullptr)
    throw Refusal(400, "tools are not supported by this model: " + served.no_parser, "tools",
                  "unsupported_parameter");
  return tools;
}

}  // namespace

std::vector<std::int32_t> prompt_of_chat(const Served& served, Fields& fields, base::Json& tools) {
  if (served.chat_template == nullptr)
    throw Refusal(400, "the model has no chat template: ask /v1/completions", "messages");
  base::Json messages = read_messages(fields);
  tools = read_tools(served, fields);
  const base::Json& own = fields.value("chat_template_kwargs");
  if (!own.is_null() && !own.is_object()) fields.refuse("chat_template_kwargs", "an object");
  base::Json variables = served.template_variables;
  for (const auto& [name, value] : own.items()) variables[name] = value;
  fields.neutral("chat_template", nullptr, "a template comes with the model, never with a request");
  fields.neutral("continue_final_message", false, "a turn always begins at its start");
  fields.neutral("add_special_tokens", false, "the chat template writes them");
  fields.neutral("documents", nullptr, "write them into a message");
  return text::tokenize_chat(served.tokenizer, *served.chat_template,
                             {.messages = std::move(messages),
                              .tools = tools,
                              .template_kwargs = std::move(variables),
                              .add_generation_prompt = fields.flag("add_generation_prompt", true)})
      .ids;
}

}  // namespace hone::serve::openai
