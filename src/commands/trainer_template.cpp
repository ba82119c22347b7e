#include "commands/trainer_template.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/strings/plural.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "config/others/trainer_texts.h"
#include "data/files/row_source.h"
#include "report/terminal/terminal.h"
#include "train/notes/row_exam.h"
#include "train/opening/open_model.h"

namespace hone::commands {

namespace {

using base::Json;
using config::SpelledTurns;
using config::TrainerText;

constexpr std::int64_t kCompared = 64;
constexpr std::size_t kShownBytes = 48;

// The whole conversation of a row: its messages, or its prompt with what follows it.
Json conversation_of(const Json& row) {
  for (const char* name : {"messages", "conversations"}) {
    if (row.contains(name)) return row.at(name);
  }
  Json out = row.value("prompt", Json());
  for (const char* name : {"completion", "chosen"}) {
    if (!row.contains(name)) continue;
    if (!out.is_array() || !row.at(name).is_array()) return row.contains("prompt") ? Json() : row.at(name);
    out.insert(out.end(), row.at(name).begin(), row.at(name).end());
    break;
  }
  return out;
}

// From `at`, on one line; "the end" behind the last character.
std::string shown_from(const std::string& text, std::size_t at) {
  if (at >= text.size()) return "nothing more";
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
  std::string out;
  for (const char c : base::cut_text(text.substr(at), kShownBytes))
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  return "`" + base::printable(out) + "`";
}

std::size_t first_differing_byte(const std::string& a, const std::string& b) {
  const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(left - a.begin());
}

std::string trained_of(const std::string& text,
                       const std::vector<std::pair<std::size_t, std::size_t>>& ranges) {
  std::string out;
  for (const auto& [begin, end] : ranges) out += text.substr(begin, end - begin) + "|";
  return out;
}

struct Compared {
  std::int64_t rows = 0, differ = 0, masks = 0, masks_differ = 0, others = 0;
  std::string where, trainers, models;     // of the first row that differs
  std::string mask_trainers, mask_models;  // trained texts of the first row whose masks differ
};

// What a trainer writes of a conversation, and trains of it.
struct TrainerSpelling {
  const TrainerText& text;
  const text::ChatTemplate* of_run;  // the text as the file's options have it; null: there are none

  std::optional<SpelledTurns> of(const Json& messages, const text::SpecialTokens& special) const {
    auto out = spell_turns(text, messages, special.bos.value_or(""), special.eos.value_or(""));
    if (!out || of_run == nullptr) return out;
    const text::Rendered own = of_run->render({.messages = messages, .tools = {}, .template_kwargs = {}});
    out->text = own.text;
    out->trained.assign(own.generation_spans.begin(), own.generation_spans.end());
    return out;
  }
};

void compare_row(const TrainerSpelling& spelling, const Json& row, const std::string& where,
                 const train::OpenedText& opened, const text::ChatTemplate& model, Compared& out) {
  const auto& special = opened.tokenizer.special();
  const Json messages = conversation_of(row);
  const auto spelled = spelling.of(messages, special);
  if (!spelled) {
    out.others += 1;
    return;
  }
  const text::Rendered own = model.render({.messages = messages, .tools = {}, .template_kwargs = {}});
  out.rows += 1;
  if (own.text != spelled->text) {
    if (out.differ++ == 0) out.where = where, out.trainers = spelled->text, out.models = own.text;
    return;
  }
  if (own.generation_spans.empty() || spelling.text.trains_all) return;
  std::vector<std::pair<std::size_t, std::size_t>> spans(own.generation_spans.begin(),
                                                         own.generation_spans.end());
  out.masks += 1;
  if (spans == spelled->trained) return;
  if (out.masks_differ++ > 0) return;
  out.mask_trainers = trained_of(spelled->text, spelled->trained);
  out.mask_models = trained_of(own.text, spans);
}

void print_difference(const Compared& found, const TrainerText& text, const std::string& title,
                      const std::string& at) {
  const std::size_t from = first_differing_byte(found.trainers, found.models);
  std::cout
      << "warn      DATA-04 " << at << ": " << text.name << ", " << title
      << "'s text, is not the model's template in " << found.differ << " of "
      << base::counted(found.rows, "row") << '\n'
      << "          first    " << base::printable(found.where) << ", byte " << from << ": " << title
      << " trains " << shown_from(found.trainers, from) << ", the model's template writes "
      << shown_from(found.models, from) << '\n'
      << "          serving  "
      << (text.is_saved
              ? title +
                    " saves its text as the tokenizer's template: a server that reads the saved folder "
                    "renders it, one that reads the base's renders the model's"
              : "a server renders the model's template, which was not trained")
      << '\n'
      << "          do: name a template that is the model's own, or serve with the text that was trained\n";
}

void print_masks(const Compared& found, const TrainerText& text, const std::string& title) {
  if (text.trains_all) {
    std::cout << "          " << title << " trains every token of these rows, the questions too\n";
    return;
  }
  if (found.masks == 0) {
    std::cout << "          masks were not compared: the model's template marks no generated part\n";
  } else if (found.masks_differ == 0) {
    std::cout << "          the same characters are trained in " << base::counted(found.masks, "row") << '\n';
  } else {
    const std::size_t from = first_differing_byte(found.mask_trainers, found.mask_models);
    std::cout << "          trained characters differ in " << found.masks_differ << " of "
              << base::counted(found.masks, "row") << ": " << title << " has "
              << shown_from(found.mask_trainers, from) << " where the model's form has "
              << shown_from(found.mask_models, from) << " (| ends a turn)\n";
  }
}

}  // namespace

void print_trainer_template(const config::OtherRun& run, const config::Plan& asked) {
  if (run.text_name.empty()) return;
  config::Plan plan = asked;
  plan.chat_template.clear();  // the run renders the trainer's text: here it is the model's own
  const std::string title(config::trainer_title(run.trainer));
  const std::string at = base::printable("template " + run.text_name);
  const TrainerText* const text = config::trainer_text(run.trainer, run.text_name);
  const auto skip = [&](const std::string& why) {
    std::cout << "note      " << at << ": not compared with the model's own: " << why << '\n';
  };
  if (text == nullptr) return skip("hone does not have " + title + "'s text of this name");
  const train::OpenedText opened = train::open_text(plan, train::tokenizer_of_run(plan));
  if (opened.chat_template == nullptr) return skip("the tokenizer has no chat template");
  std::vector<std::string> unused;
  const auto training = train::open_training_template(plan, opened, unused);
  const text::ChatTemplate& model = training ? *training : *opened.chat_template;
  std::unique_ptr<text::ChatTemplate> of_run;
  if (!asked.chat_template.empty())
    of_run = std::make_unique<text::ChatTemplate>(asked.chat_template, opened.tokenizer.special(), at);
  const TrainerSpelling spelling{.text = *text, .of_run = of_run.get()};
  Compared found;
  try {
    const data::RowSource source(train::rows_for(opened.tokenizer, plan, plan.train_rows));
    data::RowNames names(source.path());
    source.for_first(kCompared, names, [&](const Json& row, int number) {
      compare_row(spelling, row, names.of(number), opened, model, found);
    });
  } catch (const base::UserError& error) {
    return skip(base::printable(error.text().found));
  }
  if (found.rows == 0) return skip("no row is a conversation of questions and answers");
  if (found.differ > 0) {
    print_difference(found, *text, title, at);
  } else {
    std::cout << "template  " << base::printable(run.text_name) << ", " << title
              << "'s text, is the model's own in " << base::counted(found.rows, "row") << '\n';
    print_masks(found, *text, title);
  }
  if (found.others > 0)
    std::cout << "          not compared: " << base::counted(found.others, "row")
              << " with other turns than questions and answers\n";
}

}  // namespace hone::commands
