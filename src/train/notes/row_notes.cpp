#include "train/notes/row_notes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/files/path_kind.h"
#include "base/strings/plural.h"
#include "config/option_table.h"
#include "config/parse.h"
#include "data/files/describe_row.h"
#include "train/methods/methods.h"
#include "train/opening/prompt_form.h"

namespace hone::train {
namespace {

// What rows of a form are called, and the columns that are read of them.
struct FormRow {
  std::string_view word, called, columns;
};
constexpr std::array<FormRow, 7> kForms = {
    {{"text", "text", ""},
     {"strings", "prompts and completions as text", "prompt completion chosen rejected label margin"},
     {"messages", "messages", "messages conversations tools chat_template_kwargs"},
     {"turns", "prompts and completions as messages",
      "prompt completion chosen rejected label margin tools chat_template_kwargs"},
     {"tokens", "tokenized", "input_ids chosen_ids rejected_ids chosen_input_ids rejected_input_ids margin"},
     {"masked", "tokenized", "completion_mask assistant_masks"},
     {"labeled", "tokenized", "labels"}}};

const FormRow* form_row(std::string_view word) {
  const auto* const found =
      std::find_if(kForms.begin(), kForms.end(), [word](const FormRow& row) { return row.word == word; });
  return found == kForms.end() ? nullptr : found;
}

void note_options(const config::Plan& plan, const RowReading& reading, std::vector<std::string>& notes) {
  for (const config::RowOption& option : plan.row_options) {
    const bool used = std::any_of(reading.forms.begin(), reading.forms.end(), [&](const std::string& form) {
      return config::contains_word(option.forms, form);
    });
    // A folder also brings its end of sequence and its added tokens, which texts read too.
    const bool folder = option.name == "chat_template_path" && base::is_folder(plan.chat_template_path);
    if (used || folder) continue;
    notes.push_back(std::string(option.name) + ": not used for the rows, which are " +
                    std::string(form_row(reading.forms.front())->called));
  }
}

// Prompts that were made of another column than `prompt`, without dataset_prompt_column.
void note_stand_ins(const config::Plan& plan, const data::SeenRows& seen, std::vector<std::string>& notes) {
  if (!config::samples(plan.method)) return;
  const data::PromptForm form = prompt_form(plan);
  base::Json row = base::Json::object();
  for (const std::string& column : seen.columns) row[column] = nullptr;
  if (!form.stands_in(row)) return;
  const bool turn = form.system.empty() && !form.system_without_prompt.empty();
  notes.push_back("the rows have no prompt: their " + form.column_without_prompt +
                  (turn ? " becomes the user's turn after DeepSeek-R1's system turn, as in X-R1's script "
                        : " becomes the user's turn, as in open-r1's script ") +
                  "(rows_without_prompt: " + plan.rows_without_prompt + ")");
}

void note_mapping(const base::RowMapping& mapping, const data::MapEffects& effects,
                  std::vector<std::string>& notes) {
  const bool alpaca = base::is_alpaca(mapping.format);  // makes the turns itself
  if (mapping.format != base::RowFormat::kTrl && !effects.format)
    notes.emplace_back("row_format: changed nothing, the first rows have TRL's form already");
  if (mapping.conversation && !alpaca && !effects.conversation)
    notes.emplace_back("make_conversation: changed nothing, the first rows are conversations already");
  if (!mapping.system_prompt.empty() && !effects.system_prompt)
    notes.emplace_back("dataset_system_prompt: not used, the first rows have a system turn of their own");
}

// Columns whose values reach the method, or what makes its rows.
bool is_used(const std::string& column, const base::RowMapping& mapping,
             const std::vector<std::string>& unread) {
  const bool renamed = std::any_of(mapping.columns.begin(), mapping.columns.end(),
                                   [&column](const auto& each) { return each.first == column; });
  const std::string braced = "{" + column + "}";
  const bool filled = mapping.prompt_template.find(braced) != std::string::npos ||
                      mapping.text_template.find(braced) != std::string::npos;
  return renamed || filled || !mapping.function.word.empty() ||
         std::find(unread.begin(), unread.end(), column) == unread.end();
}

void note_readings(const data::SeenRows& seen, const base::RowMapping& mapping,
                   const std::vector<std::string>& unread, std::vector<std::string>& notes) {
  std::string out;
  for (const data::CsvReading& one : seen.readings) {
    if (!is_used(one.column, mapping, unread)) continue;
    out += (out.empty() ? "in line " : "; in line ") + std::to_string(one.line) + ", column " + one.column +
           ", " + one.describe();
  }
  if (!out.empty())
    notes.push_back("CSV is read as pandas reads it: " + out + "; JSON Lines keeps texts as they are");
}

std::vector<std::string> read_columns(const config::Plan& plan, const std::vector<std::string>& forms) {
  std::vector<std::string> out;
  for (const std::string& form : forms) {
    if (form == "text") out.push_back(plan.dataset_text_field);
    for (std::string& column : config::split_words(form_row(form)->columns)) out.push_back(std::move(column));
  }
  return out;
}

// Variables of the rows that the run's template does not name.
void note_template(const OpenedText& text, const data::SeenRows& seen, std::vector<std::string>& notes) {
  if (text.chat_template == nullptr) return;
  std::string source = text.tokenizer.chat_templates().main.value_or("");
  for (const auto& [name, named] : text.tokenizer.chat_templates().named) source += named;
  if (text.tokenizer.chat_templates().main.value_or("").starts_with("\xef\xbb\xbf"))
    notes.emplace_back(
        "the chat template begins with a byte order mark (U+FEFF), and so does every conversation, as in "
        "transformers: save its file as UTF-8 without it");
  const auto has_column = [&seen](const char* name) {
    return std::find(seen.columns.begin(), seen.columns.end(), name) != seen.columns.end();
  };
  if (has_column("tools") && source.find("tools") == std::string::npos)
    notes.emplace_back("tools: not used, the chat template does not read tools");
  std::vector<std::string> absent;
  for (const std::string& key : seen.template_keys) {
    if (source.find(key) == std::string::npos) absent.push_back(key);
  }
  if (!absent.empty())
    notes.push_back("chat_template_kwargs: not used, the chat template has no variable " +
                    data::join(absent));
}

// What TRL does not apply of tokenized rows.
void note_tokens(const config::Plan& plan, const data::DataFacts& facts, std::vector<std::string>& notes) {
  const data::TokenColumns& columns = facts.token_columns;
  notes.emplace_back(
      "the rows are tokenized: input_ids are trained as they are, without a chat template, and no "
      "end of sequence is added");
  const bool completion_only = plan.completion_only_loss.value_or(columns.completions);
  if (columns.labels && (columns.completion_mask || columns.assistant_masks))
    notes.emplace_back(
        "completion_mask and assistant_masks: not used, since the rows have labels, as in TRL");
  if (!columns.labels && columns.completion_mask && !completion_only)
    notes.emplace_back("completion_mask: not used, as in TRL, which needs completion_only_loss: true for it");
  if (columns.labels && plan.completion_only_loss == true)
    notes.emplace_back("completion_only_loss: not used, since the rows have labels, as in TRL");
  if (facts.rows_hiding_attention > 0) {
    notes.push_back(base::counted(facts.rows_hiding_attention, "row") +
                    " with a 0 in attention_mask, which TRL does not read: those tokens are attended to" +
                    (columns.labels ? "" : " and trained on"));
  }
  if (facts.rows_with_shifted_labels > 0) {
    notes.push_back(
        base::counted(facts.rows_with_shifted_labels, "row") +
        " with labels that are input_ids shifted by one: the loss shifts labels itself, so that the model "
        "learns the token after the next");
  } else if (facts.rows_with_own_labels > 0) {
    notes.push_back(base::counted(facts.rows_with_own_labels, "row") +
                    " with labels that are other tokens than input_ids");
  }
}

// Prompts and completions that are texts, on a model with a chat template.
void note_plain_texts(OpenedRun& run) {
  if (run.text->chat_template == nullptr) return;
  run.start.notes.emplace_back(
      "prompts and completions are texts, so the model's chat template is not used; make_conversation: true makes "
      "turns of them");
}

// Rows of `count` conversations whose roles are ShareGPT's, as TRL leaves them.
void note_sharegpt_roles(OpenedRun& run, std::int64_t count) {
  if (count == 0) return;
  run.start.notes.push_back(
      std::to_string(count) +
      " conversations have the roles human or gpt, which TRL does not rename and most templates "
      "pass over; row_format: sharegpt makes them user and assistant");
}

// SFT's rows, in words of config::kRowForms.
std::vector<std::string> forms_of(const data::DataFacts& facts) {
  std::vector<std::string> out;
  if (facts.form == data::RowForm::kTokens) {
    out = {"tokens"};
    const data::TokenColumns& columns = facts.token_columns;
    // Masks that are there and not applied have notes of their own.
    if (columns.completion_mask || columns.assistant_masks) out.emplace_back("masked");
    if (columns.labels) out.emplace_back("labeled");
  } else if (facts.form == data::RowForm::kText) {
    out = {"text"};
  } else if (facts.form == data::RowForm::kMessages) {
    out = {"messages"};
  } else {
    out = {facts.conversational ? "turns" : "strings"};
  }
  return out;
}

// Rows of two sequences.
std::vector<std::string> forms_of(const base::ReadKeys& columns, const data::SeenRows& seen,
                                  bool conversational) {
  const auto reads = [&](std::string_view name) {
    return columns.find(name) != nullptr && std::ranges::find(seen.columns, name) != seen.columns.end();
  };
  const bool tokens = (reads("chosen_ids") && reads("rejected_ids")) ||
                      (reads("chosen_input_ids") && reads("rejected_input_ids"));
  return {tokens ? "tokens" : conversational ? "turns" : "strings"};
}

RowReading record_reading(config::Method method, const data::SeenRows& seen, const data::RowFacts& facts) {
  const base::ReadKeys& columns = columns_of(method);
  if (const auto* const examples = std::get_if<data::DataFacts>(&facts))
    return {.columns = columns, .forms = forms_of(*examples)};
  return {.columns = columns, .forms = forms_of(columns, seen, data::counts_of(facts).conversational)};
}

}  // namespace

const base::ReadKeys& columns_of(config::Method method) {
  return method_opening(method).columns();
}

std::vector<std::string> notes_of_rows(const config::Plan& plan, const data::SeenRows& seen,
                                       const RowReading& reading) {
  std::vector<std::string> notes;
  note_options(plan, reading, notes);
  note_stand_ins(plan, seen, notes);
  note_mapping(plan.train_rows.mapping, seen.effects, notes);
  std::vector<std::string> unread;
  if (reading.names_unread)
    unread = data::unread_columns(seen, reading.columns, read_columns(plan, reading.forms));
  if (!unread.empty())
    notes.push_back((unread.size() == 1 ? "a column is not read: " : "columns are not read: ") +
                    data::join(unread));
  note_readings(seen, plan.train_rows.mapping, unread, notes);
  return notes;
}

RowReading prompt_reading(bool conversational) {
  return {.columns = data::prompt_columns(),
          .forms = {conversational ? "turns" : "strings"},
          .names_unread = false};
}

namespace {

std::vector<std::string> notes_of_records(const config::Plan& plan, const data::SeenRows& seen,
                                          const data::RowFacts& facts, const RowReading& reading) {
  std::vector<std::string> notes;
  const auto* const examples = std::get_if<data::DataFacts>(&facts);
  if (examples != nullptr && examples->form == data::RowForm::kTokens) note_tokens(plan, *examples, notes);
  for (std::string& note : notes_of_rows(plan, seen, reading)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace

std::vector<std::string> record_notes(const config::Plan& plan, const data::SeenRows& seen,
                                      const data::RowFacts& facts) {
  return notes_of_records(plan, seen, facts, record_reading(plan.method, seen, facts));
}

void note_rows(OpenedRun& run, const data::SeenRows& seen, const RowReading& reading,
               std::vector<std::string> notes) {
  const bool rendered = std::any_of(reading.forms.begin(), reading.forms.end(), [](const std::string& form) {
    return config::contains_word(config::kConversations, form);
  });
  if (rendered) note_template(*run.text, seen, notes);
  run.start.notes.insert(run.start.notes.end(), notes.begin(), notes.end());
}

void note_records(OpenedRun& run, const data::SeenRows& seen, const data::RowFacts& facts) {
  const RowReading reading = record_reading(run.plan.method, seen, facts);
  note_rows(run, seen, reading, notes_of_records(run.plan, seen, facts, reading));
  if (data::counts_of(facts).plain_prompts) note_plain_texts(run);
  if (const auto* const examples = std::get_if<data::DataFacts>(&facts))
    note_sharegpt_roles(run, examples->rows_with_sharegpt_roles);
}

}  // namespace hone::train
