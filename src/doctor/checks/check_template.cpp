// DATA-04 and DATA-08: what the chat template does with a conversation.
#include <algorithm>
#include <optional>
#include <ranges>
#include <span>

#include "base/error.h"
#include "data/forms/rows.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "text/turn_end.h"

namespace hone::doctor {

using base::Json;
using base::Level;
using base::Verdict;

namespace {

constexpr std::int64_t kRowsRead = 500;  // of the data file
constexpr std::size_t kTurnRows = 32;    // conversations of several turns that are looked at

// ---- DATA-04

// Only SFT has the options.
std::string template_place(const train::RunView& run) {
  return run.has_examples() ? "name it with chat_template_path"
                            : "put it into the model's tokenizer_config.json";
}

// The last token of an assistant's turn; empty: the template ends it with none, or cannot render this. Where the
// template writes more behind the token that ends the answer (Phi-3's eos_token), it is not text::turn_end.
std::optional<std::int32_t> last_of_answer(const train::OpenedText& text) {
  const Json messages =
      Json::array({{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Hello"}}});
  const auto ids =
      text::tokenize_chat(
          text.tokenizer, *text.chat_template,
          {.messages = messages, .tools = {}, .template_kwargs = {}, .add_generation_prompt = false})
          .ids;
  for (const std::int32_t& id : std::views::reverse(ids)) {
    const std::span<const std::int32_t> one(&id, 1);
    const std::string kept = text.tokenizer.decode(one, false);
    if (kept.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    if (text.tokenizer.decode(one, true).empty()) return id;
    return std::nullopt;
  }
  return std::nullopt;
}

std::vector<std::int64_t> stop_ids(const train::RunView& run) {
  std::vector<std::int64_t> out = run.model->config().eos_token_ids;
  if (const auto eos = run.text->tokenizer.eos_id()) out.push_back(*eos);
  if (const auto eot = run.text->tokenizer.eot_id()) out.push_back(*eot);
  const auto& own = run.plan.policy.stop_token_ids;
  if (run.samples()) out.insert(out.end(), own.begin(), own.end());
  return out;
}

bool holds(const std::vector<std::int64_t>& ids, std::int64_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

std::string named(const text::Tokenizer& tokenizer, std::vector<std::int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::string out;
  for (const std::int64_t id : ids) out += (out.empty() ? "" : ", ") + format::token(tokenizer, id);
  return out.empty() ? "none" : out;
}

// What the run teaches as the end must be what generation stops at.
Verdict check_stop_token(const train::RunView& run) {
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  const bool chat = run.start.conversational && run.text->chat_template != nullptr;
  Verdict out{.code = "DATA-04"};
  std::optional<std::int32_t> end = tokenizer.eos_id();
  if (chat) {
    try {
      end = text::turn_end(run.text->tokenizer, *run.text->chat_template);
    } catch (const base::UserError&) {
      out.what = "not checked: the chat template does not render a simple question and answer";
      out.level = Level::kNote;
      return out;
    }
  }
  out.evidence = "stop tokens of model, generation_config and tokenizer: " + named(tokenizer, stop_ids(run));
  const bool strings = run.samples() && !run.plan.policy.stop_strings.empty();
  if (!end) {
    out.level = strings ? Level::kNote : Level::kWarn;
    out.what = chat ? "the chat template ends an assistant's turn with no special token"
                    : "no eos_token: generation has nothing to stop at";
    out.cause = "nothing marks where an answer ends";
    out.fix = chat                 ? "a template that ends turns: " + template_place(run)
              : run.has_examples() ? "name it with the option eos_token"
                                   : "name it in the model's tokenizer_config.json";
    out.cost = "a model that continues after its answer";
    return out;
  }
  const std::string token = format::token(tokenizer, *end);
  if (!holds(stop_ids(run), *end)) {
    out.level = strings ? Level::kNote : Level::kWarn;
    out.what = "the chat template ends turns with " + token +
               ", which is not a stop token of the model or the tokenizer";
    out.cause = "a base model's eos_token with an instruct model's template";
    out.fix = "eos_token: " + tokenizer.id_to_token(*end).value_or("") +
              (run.has_examples() ? "" : ", in the model's tokenizer_config.json");
    out.cost = run.samples() ? "completions that always reach max_completion_length"
                             : "good training, but endless generation in serving";
    if (run.has_examples()) out.repair = {{"eos_token", tokenizer.id_to_token(*end).value_or("")}};
    return out;
  }
  const std::vector<std::int64_t>& model = run.model->config().eos_token_ids;
  if (!model.empty() && !holds(model, *end)) {
    out.level = Level::kNote;
    out.what = "answers end with " + token + ", the tokenizer's; the model's own files stop at " +
               named(tokenizer, model);
    out.cost = "servers that read only generation_config.json continue after an answer";
    out.fix = "add the id to eos_token_id in generation_config.json where the model is served";
    return out;
  }
  out.what = (chat ? "turns end with " : "rows end with ") + token + ", a stop token of model and tokenizer";
  return out;
}

// ---- DATA-08

// The first training rows; null when they do not parse on their own.
std::optional<data::Rows> first_rows(const config::Plan& plan) {
  try {
    return data::read_first_rows(plan.train_rows, plan.dataset_text_field, kRowsRead);
  } catch (const base::UserError&) {
    return std::nullopt;
  }
}

Json column(const Json& row, const char* name) {
  return row.contains(name) ? row.at(name) : Json();
}

Json conversation(const data::Rows& rows, std::size_t i) {
  if (rows.form == data::RowForm::kMessages) return rows.rows[i].at("messages");
  Json out = rows.rows[i].at("prompt");
  for (const Json& one : rows.rows[i].at("completion")) out.push_back(one);
  return out;
}

std::vector<std::size_t> assistant_turns(const Json& messages) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].value("role", "") == "assistant") out.push_back(i);
  }
  return out;
}

struct Break {
  std::string where, then, later;  // what the turn read as, and what it reads as once others follow
};

// Where the text up to an assistant's turn is no longer there once the conversation goes on.
std::optional<Break> find_break(const text::ChatTemplate& chat_template, const Json& row,
                                const Json& messages, const std::string& where) {
  const auto render = [&](const Json& some) {
    return chat_template
        .render({.messages = some,
                 .tools = column(row, "tools"),
                 .template_kwargs = column(row, "chat_template_kwargs"),
                 .add_generation_prompt = false})
        .text;
  };
  const std::string whole = render(messages);
  const std::vector<std::size_t> turns = assistant_turns(messages);
  for (const std::size_t turn : turns) {
    if (turn + 1 == messages.size()) break;
    Json some = Json::array();
    for (std::size_t i = 0; i <= turn; ++i) some.push_back(messages[i]);
    const std::string part = render(some);
    if (whole.starts_with(part)) continue;
    const auto differ = std::mismatch(part.begin(), part.end(), whole.begin(), whole.end());
    const auto at = static_cast<std::size_t>(differ.first - part.begin());
    std::size_t from = at > 20 ? at - 20 : 0;
    while (from > 0 && (static_cast<unsigned char>(part[from]) & 0xC0U) == 0x80U) --from;  // whole characters
    return Break{.where = where + ", message " + std::to_string(turn + 1),
                 .then = format::shown(std::string_view(part).substr(from)),
                 .later = format::shown(std::string_view(whole).substr(from))};
  }
  return std::nullopt;
}

Verdict check_turns(const train::RunView& run) {
  Verdict out{.code = "DATA-08"};
  const std::optional<data::Rows> rows = first_rows(run.plan);
  std::int64_t looked = 0, broken = 0;
  std::optional<Break> first;
  for (std::size_t i = 0;
       rows && rows->conversational && i < rows->rows.size() && looked < static_cast<std::int64_t>(kTurnRows);
       ++i) {
    const Json messages = conversation(*rows, i);
    if (assistant_turns(messages).size() < 2) continue;
    try {
      const auto found = find_break(*run.text->chat_template, rows->rows[i], messages, rows->where(i));
      looked += 1;
      broken += found ? 1 : 0;
      if (found && !first) first = found;
    } catch (const base::UserError&) {
      continue;  // a template that does not take part of a conversation
    }
  }
  if (looked == 0) {
    out.what = "no conversation of several turns among the first rows";
    return out;
  }
  if (!first) {
    out.what = "earlier turns do not change when a conversation continues (" +
               format::counted(looked, "conversation") + ")";
    return out;
  }
  out.level = Level::kWarn;
  out.what = "the chat template rewrites earlier turns when a conversation continues";
  out.evidence = std::to_string(broken) + " of " + format::counted(looked, "conversation") + "; " +
                 first->where + ": as the last turn `" + first->then + "`, later `" + first->later + "`";
  out.cause = "a template that drops or adds something (often <think>) in all turns but the last";
  out.fix = run.plan.assistant_only_loss || rows->form != data::RowForm::kMessages
                ? "split conversations into one row per turn, or name a template that does not change "
                  "earlier turns (chat_template_path)"
                : "split conversations into one row per turn, with prompt and completion columns";
  out.cost = "earlier answers are trained in a form that the model never generates";
  return out;
}

}  // namespace

std::optional<std::int32_t> answer_end(const train::RunView& run) {
  if (!run.start.conversational || run.text->chat_template == nullptr) return run.text->tokenizer.eos_id();
  try {
    return last_of_answer(*run.text);
  } catch (const base::UserError&) {
    return std::nullopt;
  }
}

Verdicts check_template(const train::RunView& run) {
  if (run.model && run.model->score_head().defined()) return {};  // nothing is generated, no turn has a loss
  Verdicts out = {check_stop_token(run)};
  if (run.samples()) {
    out.push_back(
        {.code = "DATA-08",
         .what = "impossible here: completions are trained as the sampled tokens, never tokenized again",
         .evidence = "tests/train/sampler_is_trainer_test.cpp"});
  } else if (run.has_pairs()) {
    out.push_back(
        {.code = "DATA-08", .what = "earlier turns are context and not targets, rendered as in generation"});
  } else if (run.start.conversational && run.text->chat_template != nullptr) {
    out.push_back(check_turns(run));
  }
  return out;
}

}  // namespace hone::doctor
