// DATA-14: does the chat template render what the run's own rows use: system turns, tools, calls of them, and the
// beginning of an answer?
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/checks/first_rows.h"

namespace hone::doctor {

using base::Json;
using base::Level;
using base::Verdict;

namespace {

constexpr std::int64_t kPartRows = 200;

// A conversation of the data that uses a part, and what its rendering has to hold.
struct Use {
  Json messages, tools, kwargs;
  std::string where;
  std::string wanted;  // a text of it
};

std::string stripped(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

Json parsed_column(const Json& row, const char* name) {
  const auto found = row.find(name);
  if (found == row.end()) return {};
  if (!found->is_string()) return *found;
  Json read = Json::parse(found->get<std::string>(), nullptr, /*allow_exceptions=*/false);
  return read.is_discarded() ? Json() : read;
}

// A tool's name, as OpenAI's form and transformers' have it.
std::string name_of(const Json& tool) {
  if (!tool.is_object()) return "";
  const Json& function = tool.contains("function") && tool["function"].is_object() ? tool["function"] : tool;
  return function.contains("name") && function["name"].is_string() ? function["name"].get<std::string>() : "";
}

std::string first_name(const Json& list) {
  return list.is_array() && !list.empty() ? name_of(list[0]) : "";
}

bool knows_roles(const Json& messages) {
  return std::all_of(messages.begin(), messages.end(), [](const Json& one) {
    return one.is_object() && one.contains("role") && one["role"].is_string();
  });
}

bool has_lists(const Json& messages) {
  return std::any_of(messages.begin(), messages.end(),
                     [](const Json& one) { return one.contains("content") && one["content"].is_array(); });
}

// What the rows use, the first of each.
struct Uses {
  std::optional<Use> system, tools, calls;
};

void note_uses(const FirstRow& row, const Json& messages, Uses& uses) {
  const Use use{.messages = messages,
                .tools = parsed_column(row.row, "tools"),
                .kwargs = parsed_column(row.row, "chat_template_kwargs"),
                .where = row.where,
                .wanted = ""};
  const auto keep = [&use](std::optional<Use>& place, const std::string& wanted) {
    if (place || wanted.empty()) return;
    place = use;
    place->wanted = wanted;
  };
  keep(uses.tools, first_name(use.tools));
  for (const Json& message : messages) {
    if (message["role"] == "system") keep(uses.system, stripped(content_of(message)));
    if (message.contains("tool_calls")) keep(uses.calls, first_name(message["tool_calls"]));
  }
}

// Empty: it cannot be rendered, which the reader of the rows has said.
std::optional<std::string> rendered(const train::RunView& run, const Use& use, bool begins_answer = false) {
  try {
    return run.text->chat_template
        ->render({.messages = use.messages,
                  .tools = use.tools.is_array() && !use.tools.empty() ? use.tools : Json(),
                  .template_kwargs = use.kwargs,
                  .add_generation_prompt = begins_answer})
        .text;
  } catch (const base::UserError&) {
    return std::nullopt;
  }
}

std::optional<Verdict> judge_part(const train::RunView& run, const std::optional<Use>& use,
                                  const std::string& part, const std::string& cost) {
  if (!use) return std::nullopt;
  const std::optional<std::string> text = rendered(run, *use);
  // JSON writes some characters otherwise: the beginning is enough.
  const std::string wanted = use->wanted.substr(0, std::min<std::size_t>(use->wanted.find('\n'), 24));
  if (!text || text->find(wanted) != std::string::npos) return std::nullopt;
  Verdict out{.code = "DATA-14", .level = Level::kWarn};
  out.what = "the chat template drops " + part;
  out.evidence = use->where + ": `" + format::shown(use->wanted, 40) + "` is not in its rendering `" +
                 format::shown(*text, 60) + "`";
  out.cause = "a template that passes over " + part;
  out.not_this = "the rows: the part is in the file, and the rest of the conversation is rendered";
  out.fix = run.has_examples() ? "name a template that renders it: chat_template_path"
                               : "a template that renders it, in the model's tokenizer_config.json";
  out.cost = cost;
  return out;
}

// A prompt that is the same with add_generation_prompt and without, and answers that begin with a header of
// their own: the model has to write it itself. What an answer begins with behind a generation prompt is the
// model's part (an empty thinking block of Qwen3 and GLM, the channel of gpt-oss).
std::optional<Verdict> judge_generation_prompt(const train::RunView& run) {
  constexpr const char* kAnswer = "Sunday";
  Use use;
  use.messages = Json::array({{{"role", "user"}, {"content", "Which day is it?"}}});
  const std::optional<std::string> prompt = rendered(run, use, true);
  if (prompt != rendered(run, use)) return std::nullopt;
  use.messages.push_back({{"role", "assistant"}, {"content", kAnswer}});
  const std::optional<std::string> whole = rendered(run, use);
  if (!prompt || !whole || !whole->starts_with(*prompt)) return std::nullopt;
  const std::size_t at = whole->find(kAnswer, prompt->size());
  if (at == std::string::npos) return std::nullopt;
  const std::string header = stripped(whole->substr(prompt->size(), at - prompt->size()));
  if (header.empty() || header.find("think") != std::string::npos) return std::nullopt;
  Verdict out{.code = "DATA-14", .level = Level::kWarn};
  out.what = "the chat template has no generation prompt";
  out.evidence = "a prompt ends with `" +
                 format::shown(prompt->substr(prompt->size() - std::min<std::size_t>(20, prompt->size()))) +
                 "`, an answer begins with `" + format::shown(header) + "`";
  out.cause = "the template does not look at add_generation_prompt";
  out.not_this = "a template that needs none: there the answer follows the prompt directly";
  out.fix = "let it end with {% if add_generation_prompt %}" + format::shown(header) + "{% endif %}";
  out.cost = run.samples() ? "every completion has to begin with the header of a turn, before its answer"
                           : "in use the model has to write the header of its turn itself";
  return out;
}

// A template that writes a value as Python does writes a list of parts as one too.
std::optional<Verdict> judge_lists(const train::RunView& run, const FirstRow& row, const Json& messages) {
  Use use;
  use.messages = messages;
  const std::optional<std::string> text = rendered(run, use);
  if (!text) return std::nullopt;
  const std::size_t at = std::min(text->find("'type': '"), text->find("\"type\": \""));
  if (at == std::string::npos) return std::nullopt;
  Verdict out{.code = "DATA-15", .level = Level::kWarn};
  out.what = "the chat template writes lists of parts into the text as they are";
  out.evidence =
      row.where + ": `" + format::shown(std::string_view(*text).substr(at > 10 ? at - 10 : 0)) + "`";
  out.cause =
      "the content of messages is a list, as OpenAI's API has it, and the template takes it for a text";
  out.not_this = "the rows: TRL and transformers read lists too, where the template knows them";
  out.fix = "make one text of the parts (row_function), or name a template that takes lists";
  out.cost = "a model that learns to write brackets and quotes";
  return out;
}

}  // namespace

Verdicts check_template_parts(const train::RunView& run) {
  if (!run.start.conversational || run.text->chat_template == nullptr) return {};
  Uses uses;
  Verdicts out;
  const auto add = [&out](std::optional<Verdict> one) {
    if (one) out.push_back(std::move(*one));
  };
  for (const FirstRow& row : read_first_rows(run, kPartRows)) {
    for (const Json& messages : conversations_of(row.row)) {
      if (!knows_roles(messages)) continue;
      note_uses(row, messages, uses);
      if (out.empty() && has_lists(messages)) add(judge_lists(run, row, messages));
    }
  }
  add(judge_part(run, uses.system, "system turns", "a model that ignores its system prompt"));
  add(judge_part(run, uses.tools, "the tools of a row", "a model that never learns which tools there are"));
  add(judge_part(run, uses.calls, "calls of tools",
                 "turns without their call: a model that never makes one"));
  append(out, check_reasoning(run));
  const bool scores = run.model && run.model->score_head().defined();
  if (!scores) add(judge_generation_prompt(run));
  if (out.empty()) {
    std::string parts;
    for (const auto& [use, name] : {std::pair(&uses.system, "system turns"), std::pair(&uses.tools, "tools"),
                                    std::pair(&uses.calls, "calls of tools")}) {
      if (*use) parts += std::string(name) + ", ";
    }
    out.push_back({.code = "DATA-14",
                   .what = "the chat template " + (parts.empty() ? "" : "renders " + parts + "and ") +
                           "begins the answer"});
  }
  return out;
}

}  // namespace hone::doctor
