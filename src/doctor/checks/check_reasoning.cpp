// DATA-14: what the chat template leaves out of the assistant's turns: their reasoning, other text, names.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/checks/first_rows.h"
#include "doctor/number_format.h"
#include "text/training_template.h"

namespace hone::doctor {

using base::Json;
using base::Level;
using base::Verdict;

namespace {

constexpr std::int64_t kReasoningRows = 200;
constexpr std::size_t kFragment = 60;  // bytes of a line that are looked for

std::string_view without_blanks(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, end - begin + 1);
}

// The longest line of a text, which its rendering has to hold: templates trim and join lines.
std::string fragment_of(std::string_view text) {
  std::string_view longest;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = without_blanks(text.substr(0, end));
    if (line.size() > longest.size()) longest = line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::string out = base::cut_text(longest, kFragment);
  if (longest.size() > kFragment && out.ends_with("...")) out.resize(out.size() - 3);
  return out;
}

// As it is, or as JSON writes it.
bool is_in(const std::string& text, const std::string& rendering) {
  const std::string fragment = fragment_of(text);
  if (rendering.find(fragment) != std::string::npos) return true;
  const std::string quoted = base::dump_json(Json(fragment));
  return rendering.find(quoted.substr(1, quoted.size() - 2)) != std::string::npos;
}

// An assistant's turn in its parts.
struct Turn {
  std::string reasoning, answer;
  const char* key = nullptr;  // of the reasoning, where it is no part of the content
};

constexpr const char* kEndOfThinking = "</think>";
constexpr const char* kThinking = "<think>";

Turn turn_of(const Json& message) {
  Turn out;
  const std::string content = content_of(message);
  out.answer = content;
  if (const std::size_t end = content.rfind(kEndOfThinking); end != std::string::npos) {
    std::string_view before = std::string_view(content).substr(0, end);
    if (const std::size_t begin = before.find(kThinking); begin != std::string_view::npos)
      before.remove_prefix(begin + std::string_view(kThinking).size());
    out.reasoning = without_blanks(before);
    out.answer = content.substr(end + std::string_view(kEndOfThinking).size());
  }
  for (const char* const key : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(key);
    if (!out.reasoning.empty() || found == message.end() || !found->is_string()) continue;
    out.reasoning = without_blanks(found->get_ref<const std::string&>());
    if (!out.reasoning.empty()) out.key = key;
  }
  out.answer = without_blanks(out.answer);
  return out;
}

// A conversation as it is trained: a prompt with its answer, or the messages.
std::vector<Json> trained_conversations(const Json& row) {
  const auto turns = [&row](const char* name) -> Json {
    const auto found = row.find(name);
    const bool list = found != row.end() && found->is_array() && !found->empty() && (*found)[0].is_object();
    return list ? *found : Json::array();
  };
  std::vector<Json> out;
  const Json prompt = turns("prompt");
  for (const char* const name : {"messages", "conversations", "completion", "chosen", "rejected"}) {
    const Json some = turns(name);
    if (some.empty()) continue;
    Json whole = prompt;
    for (const Json& one : some) whole.push_back(one);
    out.push_back(std::move(whole));
  }
  return out;
}

Json json_column(const Json& row, const char* name) {
  const auto found = row.find(name);
  if (found == row.end()) return {};
  if (!found->is_string()) return *found;
  Json read = Json::parse(found->get<std::string>(), nullptr, /*allow_exceptions=*/false);
  return read.is_discarded() ? Json() : read;
}

std::optional<std::string> text_of(const text::ChatTemplate& chat_template, const Json& row,
                                   const Json& messages) {
  const Json tools = json_column(row, "tools");
  try {
    return chat_template
        .render({.messages = messages,
                 .tools = tools.is_array() && !tools.empty() ? tools : Json(),
                 .template_kwargs = json_column(row, "chat_template_kwargs"),
                 .add_generation_prompt = false})
        .text;
  } catch (const base::UserError&) {
    return std::nullopt;  // the reader of the rows has said why
  }
}

struct Example {
  Json row, messages;
  std::string where, text, rendering;
  const char* key = nullptr;
};

// What was seen of conversations whose assistant turns have reasoning.
struct Seen {
  std::int64_t with_reasoning = 0, dropped = 0;   // conversations: the last turn with reasoning lost it
  std::int64_t earlier = 0, earlier_dropped = 0;  // turns before it
  std::int64_t answers = 0, answers_dropped = 0;  // last turns, and those of which other text is missing
  std::int64_t names = 0, names_dropped = 0;      // conversations with names
  std::optional<Example> reasoning, before, answer, name;
};

void keep(std::optional<Example>& place, const FirstRow& row, const Json& messages, const std::string& text,
          const std::string& rendering, const char* key = nullptr) {
  if (place) return;
  place = Example{.row = row.row,
                  .messages = messages,
                  .where = row.where,
                  .text = text,
                  .rendering = rendering,
                  .key = key};
}

void look_at_names(const FirstRow& row, const Json& messages, const std::string& rendering, Seen& seen) {
  for (const Json& message : messages) {
    const auto name = message.find("name");
    if (name == message.end() || !name->is_string() || message.value("role", "") == "tool") continue;
    seen.names += 1;
    const auto text = name->get<std::string>();
    if (is_in(text, rendering)) return;
    seen.names_dropped += 1;
    keep(seen.name, row, messages, text, rendering);
    return;
  }
}

void look_at(const FirstRow& row, const Json& messages, const std::string& rendering, Seen& seen) {
  look_at_names(row, messages, rendering, seen);
  std::vector<Turn> turns;
  for (const Json& message : messages) {
    if (message.value("role", "") == "assistant") turns.push_back(turn_of(message));
  }
  if (turns.empty()) return;
  const Turn& last = turns.back();
  if (!last.answer.empty()) {
    seen.answers += 1;
    if (!is_in(last.answer, rendering)) {
      seen.answers_dropped += 1;
      keep(seen.answer, row, messages, last.answer, rendering);
    }
  }
  const auto thinks = [](const Turn& turn) { return !turn.reasoning.empty(); };
  const auto at = std::find_if(turns.rbegin(), turns.rend(), thinks);
  if (at == turns.rend()) return;
  seen.with_reasoning += 1;
  if (!is_in(at->reasoning, rendering)) {
    seen.dropped += 1;
    keep(seen.reasoning, row, messages, at->reasoning, rendering, at->key);
  }
  for (auto turn = std::next(at); turn != turns.rend(); ++turn) {
    if (turn->reasoning.empty()) continue;
    seen.earlier += 1;
    if (is_in(turn->reasoning, rendering)) continue;
    seen.earlier_dropped += 1;
    keep(seen.before, row, messages, turn->reasoning, rendering, turn->key);
  }
}

std::string evidence_of(const Example& example) {
  return example.where + ": `" + format::shown(example.text, 40) + "` is not in its rendering `" +
         format::shown(example.rendering, 80) + "`";
}

std::string other_template(const train::RunView& run, const std::string& what) {
  return run.has_examples() ? "name a template that " + what + ": chat_template_path"
                            : "put a template that " + what + " into the model's tokenizer_config.json";
}

// What would keep the reasoning, tried on the example.
std::string fix_of(const train::RunView& run, const Example& example) {
  std::string out = other_template(run, "keeps it");
  if (example.key != nullptr) {
    Json written = example.messages;
    for (Json& message : written) {
      const auto found = message.find(example.key);
      if (found == message.end() || !found->is_string()) continue;
      message["content"] = "<think>\n" + found->get<std::string>() + "\n</think>\n\n" + content_of(message);
    }
    const auto text = text_of(*run.text->chat_template, example.row, written);
    if (text && is_in(example.text, *text)) out += "; or write it into the content, as <think>...</think>";
  }
  const auto& own = run.text->tokenizer.chat_template();
  const bool messages = run.has_examples() && example.row.contains("messages");
  if (!own || !messages || run.plan.assistant_only_loss) return out;
  const auto training = text::training_template(*own);
  if (!training) return out;
  const text::ChatTemplate form(training->source, run.text->tokenizer.special(), "training form");
  const auto text = text_of(form, example.row, example.messages);
  if (text && is_in(example.text, *text))
    out += "; or set assistant_only_loss: true, whose training form of this template keeps it";
  return out;
}

std::string of_conversations(std::int64_t some, std::int64_t all) {
  if (some == all) return "every conversation that has it (" + format::counted(all, "conversation") + ")";
  return std::to_string(some) + " of " + format::counted(all, "conversation") + " that have it";
}

Verdict reasoning_verdict(const train::RunView& run, const Seen& seen) {
  const Example& example = *seen.reasoning;
  Verdict out{.code = "DATA-14", .level = Level::kWarn};
  out.what =
      "the chat template drops the reasoning of " + of_conversations(seen.dropped, seen.with_reasoning);
  out.evidence = evidence_of(example);
  out.cause = example.key != nullptr
                  ? "the template does not write `" + std::string(example.key) + "` of a message"
                  : "the template cuts an assistant's turn at </think>, as for the prompt of a later turn";
  out.not_this = "the rows: the reasoning is in the file, and the rest of the turn is rendered";
  out.fix = fix_of(run, example);
  out.cost = run.has_pairs() ? "a preference between answers without what may have made one of them better"
                             : "the answers are trained without their reasoning: the model learns to skip it";
  return out;
}

Verdict earlier_verdict(const Seen& seen) {
  Verdict out{.code = "DATA-14", .level = Level::kNote};
  out.what =
      "the chat template keeps the reasoning of the last turn only: " + std::to_string(seen.earlier_dropped) +
      " of " + format::counted(seen.earlier, "earlier turn") + " with reasoning " +
      base::plural(seen.earlier_dropped, "is", "are") + " trained without it (" +
      format::percent(static_cast<double>(seen.earlier_dropped), static_cast<double>(seen.earlier)) + ")";
  out.evidence = evidence_of(*seen.before);
  out.cause = "templates of reasoning models do so in use, where earlier reasoning is not sent again";
  out.fix = "split conversations into one row per turn, where the reasoning of every turn is to be trained";
  out.cost = "these turns are trained as answers without reasoning";
  return out;
}

Verdict answer_verdict(const train::RunView& run, const Seen& seen) {
  Verdict out{.code = "DATA-14", .level = Level::kWarn};
  out.what = "the chat template drops text of the assistant's last turn in " +
             std::to_string(seen.answers_dropped) + " of " + format::counted(seen.answers, "conversation");
  out.evidence = evidence_of(*seen.answer);
  out.cause = "a template that cuts or replaces the content of a message";
  out.not_this = "blanks at the ends of lines, which templates trim";
  out.fix = other_template(run, "writes the whole content");
  out.cost = "answers that are trained without a part of them";
  return out;
}

Verdict name_verdict(const train::RunView& run, const Seen& seen) {
  Verdict out{.code = "DATA-14", .level = Level::kNote};
  out.what = "the chat template drops the names of messages in " + std::to_string(seen.names_dropped) +
             " of " + format::counted(seen.names, "conversation");
  out.evidence = evidence_of(*seen.name);
  out.cause = "most templates write the role only";
  out.fix = "write the name into the content where it matters, or " + other_template(run, "writes it");
  out.cost = "speakers of one role are not told apart";
  return out;
}

}  // namespace

Verdicts check_reasoning(const train::RunView& run) {
  if (run.samples()) return {};  // the turns of a prompt are context, rendered as in use
  std::vector<std::string> unused;
  const auto training =
      run.has_examples() ? train::open_training_template(run.plan, *run.text, unused) : nullptr;
  const text::ChatTemplate& chat_template = training ? *training : *run.text->chat_template;
  Seen seen;
  for (const FirstRow& row : read_first_rows(run, kReasoningRows)) {
    for (const Json& messages : trained_conversations(row.row)) {
      const bool readable = std::all_of(messages.begin(), messages.end(), [](const Json& one) {
        return one.is_object() && one.contains("role") && one["role"].is_string();
      });
      if (!readable) continue;
      if (const auto text = text_of(chat_template, row.row, messages)) look_at(row, messages, *text, seen);
    }
  }
  Verdicts out;
  if (seen.dropped > 0) out.push_back(reasoning_verdict(run, seen));
  if (seen.answers_dropped > 0) out.push_back(answer_verdict(run, seen));
  const bool all_turns = run.has_examples() && seen.before && seen.before->row.contains("messages");
  if (seen.dropped == 0 && seen.earlier_dropped > 0 && all_turns) out.push_back(earlier_verdict(seen));
  if (seen.names_dropped > 0) out.push_back(name_verdict(run, seen));
  return out;
}

}  // namespace hone::doctor
