// DATA-16: rows whose texts do not hold what is to be learned. They are the first rows of the file, so that
// nothing here is more than a warning.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/checks/row_texts.h"
#include "doctor/number_format.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr std::int64_t kTextRows = 500;
constexpr std::size_t kLeastTexts = 8;  // fewer say little
constexpr double kMostRows = 0.5;       // of the rows: what is wrong with most of them is no odd row
constexpr double kEmptyShare = 0.05;    // of answers
constexpr double kNearlyAll = 0.9, kFew = 0.05;
constexpr std::size_t kPromptBytes = 8;  // a shorter prompt may begin an answer by chance
constexpr std::size_t kCutBytes = 40;    // of answers that end at one length
constexpr double kCutShare = 0.1, kOpenEnds = 0.7, kShortest = 0.6;
constexpr std::size_t kLengths = 4;

using Rows = std::vector<RowTexts>;

std::int64_t count_texts(const Rows& rows, const std::function<bool(const RowTexts&)>& is) {
  return std::count_if(rows.begin(), rows.end(), is);
}

std::string of_first_rows(std::int64_t count, const Rows& rows) {
  return of_first(count, rows.size(), "row");
}

double share_of_texts(std::int64_t count, const Rows& rows) {
  return share(count, static_cast<std::int64_t>(rows.size()));
}

std::string first_shown(const Rows& rows, const std::function<bool(const RowTexts&)>& is,
                        const std::function<std::string(const RowTexts&)>& text) {
  const auto found = std::find_if(rows.begin(), rows.end(), is);
  return found == rows.end() ? "" : found->where + ": `" + format::shown(text(*found)) + "`";
}

// ---- control tokens of another model's chat template
constexpr std::array kMarkers = {"<|start_header_id|>",
                                 "<|end_header_id|>",
                                 "<|eot_id|>",
                                 "<|im_start|>",
                                 "<|im_end|>",
                                 "<start_of_turn>",
                                 "<end_of_turn>",
                                 "<|begin_of_text|>",
                                 "<|start_of_role|>",
                                 "<|user|>",
                                 "<|assistant|>",
                                 "<|end_of_text|>",
                                 "<|endoftext|>",
                                 "[INST]",
                                 "[/INST]",
                                 "<\uff5cUser\uff5c>",
                                 "<\uff5cAssistant\uff5c>",
                                 "</s>",
                                 "<|turn>"};

// The sources of the templates that the model has, or that the run names.
std::string template_source(const train::RunView& run) {
  const auto& all = run.text->tokenizer.chat_templates();
  std::string out = all.main.value_or("");
  for (const auto& [name, source] : all.named) out += source;
  return out;
}

// Llama 2 and Zephyr write theirs as text: they need no token.
bool is_plain_text(const std::string& marker) {
  return marker == "[INST]" || marker == "[/INST]" || marker == "<|user|>" || marker == "<|assistant|>";
}

// The first marker that `text` holds and this model has neither as a token nor in its own template; empty:
// none.
std::string foreign_marker(const std::string& text, const text::Tokenizer& tokenizer,
                           const std::string& source) {
  if (text.find_first_of("<[") == std::string::npos) return "";
  for (const std::string marker : kMarkers) {
    if (text.find(marker) == std::string::npos || tokenizer.token_to_id(marker)) continue;
    if (is_plain_text(marker) && source.empty()) continue;  // a form of the user's own
    if (source.find(marker) == std::string::npos) return marker;
  }
  return "";
}

std::string read_as(const std::string& marker, const text::Tokenizer& tokenizer) {
  const auto tokens = static_cast<std::int64_t>(tokenizer.encode(marker, false).ids.size());
  return "the tokenizer reads " + marker + " as " + format::counted(tokens, "token");
}

// A template that the run names, with control tokens that this tokenizer does not have.
std::optional<Verdict> check_named_template(const train::RunView& run) {
  if (run.plan.chat_template_path.empty() || !run.start.conversational || !run.text->chat_template)
    return std::nullopt;
  std::string source = template_source(run);
  for (const std::string marker : kMarkers) {
    if (is_plain_text(marker) || source.find(marker) == std::string::npos ||
        run.text->tokenizer.token_to_id(marker))
      continue;
    Verdict out{.code = "DATA-16", .level = Level::kWarn};
    out.what = "the chat template writes " + marker + ", which is no token of this model";
    out.evidence = run.plan.chat_template_path + "; " + read_as(marker, run.text->tokenizer);
    out.cause = "a template of another model";
    out.fix =
        "leave out chat_template_path (this model's own template is used), or name one that is written for this model";
    out.cost = "turns that this model does not know, and answers without an end";
    return out;
  }
  return std::nullopt;
}

std::string all_text(const RowTexts& row) {
  std::string out;
  for (const auto* one : {&row.text, &row.prompt, &row.completion, &row.chosen}) {
    if (*one) out += **one + "\n";
  }
  return out;
}

std::optional<Verdict> check_markers(const Rows& rows, const train::RunView& run) {
  std::string marker;
  const std::string source = template_source(run);
  const auto is = [&](const RowTexts& row) {
    const std::string found = foreign_marker(all_text(row), run.text->tokenizer, source);
    if (marker.empty()) marker = found;
    return !found.empty();
  };
  const std::int64_t count = count_texts(rows, is);
  if (share_of_texts(count, rows) < kMostRows) return std::nullopt;
  Verdict out{.code = "DATA-16", .level = Level::kWarn};
  out.what = of_first_rows(count, rows) + " hold " + marker + ", which is no token of this model";
  out.evidence = first_shown(rows, is, all_text) + "; " + read_as(marker, run.text->tokenizer);
  out.cause = "the rows were written with the chat template of another model";
  out.fix =
      run.text->chat_template
          ? "messages, or a prompt and a completion without such marks: this model's own template writes its turns"
          : "rows without such marks, or the tokenizer and base of the model whose marks they are";
  out.cost = "turns that this model does not know: it learns their letters, and ends no answer";
  return out;
}

// ---- roles of conversations
bool is_swapped(const RowTexts& row) {
  const std::size_t first = !row.roles.empty() && row.roles[0] == "system" ? 1 : 0;
  return row.roles.size() > first + 1 && row.roles[first] == "assistant" && row.roles.back() == "user";
}

// Of rows whose completion, or chosen side, is a list of turns.
std::optional<Verdict> check_answer_role(const Rows& rows) {
  const auto is_asked = [](const RowTexts& row) {
    return row.answer_role == "user" || row.answer_role == "system";
  };
  const std::int64_t count = count_texts(rows, is_asked);
  if (share_of_texts(count, rows) < kMostRows) return std::nullopt;
  const auto first = std::find_if(rows.begin(), rows.end(), is_asked);
  Verdict out{.code = "DATA-16", .level = Level::kWarn};
  out.what = "the " + std::string(first->row->contains("chosen") ? "chosen side" : "completion") + " of " +
             of_first_rows(count, rows) + " is a turn of the " + first->answer_role;
  out.evidence = first->where + " is the first";
  out.cause = "suspected: a role that was given to both sides of a conversation";
  out.fix = "the role assistant for what the model is to say";
  out.cost = "a model that learns to write the other side's turns";
  return out;
}

std::optional<Verdict> check_roles(const Rows& rows) {
  const auto has_roles = [](const RowTexts& row) { return !row.roles.empty(); };
  if (share_of_texts(count_texts(rows, has_roles), rows) < kMostRows) return std::nullopt;
  const auto is_silent = [](const RowTexts& row) {
    return !row.roles.empty() &&
           std::find(row.roles.begin(), row.roles.end(), "assistant") == row.roles.end();
  };
  const auto ends_asking = [](const RowTexts& row) {
    return !row.roles.empty() && row.roles.back() == "user";
  };
  const auto text = [](const RowTexts& row) { return row.prompt.value_or(row.completion.value_or("")); };
  Verdict out{.code = "DATA-16", .level = Level::kWarn};
  if (const auto swapped = count_texts(rows, is_swapped); share_of_texts(swapped, rows) >= kMostRows) {
    out.what = of_first_rows(swapped, rows) + " begin with the assistant's turn and end with the user's";
    out.evidence = first_shown(
        rows, is_swapped, [](const RowTexts& row) { return "assistant: " + row.completion.value_or(""); });
    out.cause = "suspected: the roles are the wrong way round";
    out.fix = "user for questions and assistant for answers; ShareGPT's human is user, gpt is assistant";
    out.cost = "a model that learns to ask the questions";
    return out;
  }
  if (const auto silent = count_texts(rows, is_silent); share_of_texts(silent, rows) >= kMostRows) {
    out.what = of_first_rows(silent, rows) + " have no assistant's turn";
    out.evidence = first_shown(rows, is_silent, text);
    out.cause = "suspected: question and answer stand in one turn, or answers have another role";
    out.fix = "the answer as a turn of its own, with the role assistant";
    out.cost = "a model that learns to write users' turns";
    return out;
  }
  if (const auto asking = count_texts(rows, ends_asking); share_of_texts(asking, rows) >= kMostRows) {
    out.what = of_first_rows(asking, rows) + " end with a user's turn, which has no answer";
    out.evidence = first_shown(rows, ends_asking, text);
    out.cause = "suspected: conversations that were cut at a number of turns";
    out.fix = "remove the last turn of such rows, or assistant_only_loss: true";
    out.cost = "the last turn is trained as if the model were to write it";
    return out;
  }
  return std::nullopt;
}

// ---- answers that are none
bool is_missing_word(const std::string& text) {
  static const std::set<std::string> kWords = {"nan",  "NaN",  "NAN",       "null",     "NULL",
                                               "<NA>", "None", "undefined", "[deleted]"};
  return kWords.contains(trimmed_text(text));
}

const std::optional<std::string>& answer_of(const RowTexts& row) {
  return row.completion ? row.completion : row.text;
}

std::optional<Verdict> check_empty(const Rows& rows) {
  const auto is_empty = [](const RowTexts& row) {
    const auto& answer = answer_of(row);
    return answer && !row.calls_tools && (is_blank(answer) || is_missing_word(*answer));
  };
  const std::int64_t count = count_texts(rows, is_empty);
  if (share_of_texts(count, rows) < kEmptyShare) return std::nullopt;
  const auto is_word = [&](const RowTexts& row) { return is_empty(row) && !is_blank(answer_of(row)); };
  const bool words = 2 * count_texts(rows, is_word) > count;
  Verdict out{.code = "DATA-16", .level = Level::kWarn};
  const auto first = std::find_if(rows.begin(), rows.end(), is_empty);
  const std::string what = first->completion ? "answer" : "text";
  out.what = of_first_rows(count, rows) + " have " +
             (words ? "`" + trimmed_text(*answer_of(*std::find_if(rows.begin(), rows.end(), is_word))) +
                          "` as their " + what
                    : "an empty " + what);
  out.evidence = first->where + " is the first" +
                 (first->prompt ? ": `" + format::shown(*first->prompt) + "`" : std::string());
  out.cause = words ? "a missing value that a program wrote as a word"
                    : "a missing value, or an answer in another column";
  out.fix = "remove these rows, or fill in their " + what;
  out.cost = "a model that answers so, in a share of " + format::percent(share_of_texts(count, rows), 1);
  return out;
}

// ---- characters that are not what was meant
std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t out = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++out;
  return out;
}

// UTF-8 that was read as Latin-1 or Windows-1252 and written as UTF-8 again: each letter with an accent is
// two.
bool is_twice_encoded(const RowTexts& row) {
  const std::string text = all_text(row);
  std::size_t found = count_in(text, "\u00e2\u20ac") + count_in(text, "\u00e2\u0080");
  for (const char* const first : {"\u00c3", "\u00c2"}) {
    for (std::size_t at = text.find(first); at != std::string::npos; at = text.find(first, at + 2)) {
      // What follows is a letter's second byte, as a character of its own: U+0080 to U+00BF.
      found += at + 3 < text.size() && text[at + 2] == '\xC2' ? 1 : 0;
    }
  }
  return found > 0;
}

std::optional<Verdict> check_encoding(const Rows& rows) {
  const std::int64_t count = count_texts(rows, is_twice_encoded);
  if (share_of_texts(count, rows) < kEmptyShare) return std::nullopt;
  Verdict out{.code = "DATA-16", .level = Level::kWarn};
  out.what = of_first_rows(count, rows) + " hold letters that were encoded twice";
  out.evidence = first_shown(rows, is_twice_encoded, all_text);
  out.cause = "UTF-8 that a program read as Latin-1 and wrote as UTF-8 again";
  out.fix = "read the source as UTF-8; ftfy repairs such texts";
  out.cost = "a model that learns to write them so";
  return out;
}

// A backslash and an n where a line was to end. Code has both.
bool has_written_out_lines(const RowTexts& row) {
  const std::string text = all_text(row);
  const std::string lines = row.text ? *row.text : row.completion.value_or("") + row.prompt.value_or("");
  return text.find("\\n") != std::string::npos && lines.find('\n') == std::string::npos;
}

std::optional<Verdict> check_lines(const Rows& rows) {
  const std::int64_t count = count_texts(rows, has_written_out_lines);
  if (share_of_texts(count, rows) < kMostRows) return std::nullopt;
  Verdict out{.code = "DATA-16", .level = Level::kWarn};
  out.what = of_first_rows(count, rows) + " have the two characters \\n where lines end, and no line break";
  out.evidence = first_shown(rows, has_written_out_lines, all_text);
  out.cause = "suspected: texts that were escaped twice, as a CSV or a prompt in a YAML without quotes is";
  out.fix = "replace them by line breaks when the file is made";
  out.cost = "a model that writes \\n";
  return out;
}

// ---- prompts inside of answers
std::optional<Verdict> check_repeated_prompt(const Rows& rows) {
  const auto repeats = [](const RowTexts& row) {
    const auto& answer = row.completion ? row.completion : row.chosen;
    if (!row.prompt || !answer) return false;
    const std::string prompt = trimmed_text(*row.prompt), text = trimmed_text(*answer);
    return prompt.size() >= kPromptBytes && text.size() > prompt.size() && text.starts_with(prompt);
  };
  const std::int64_t count = count_texts(rows, repeats);
  if (share_of_texts(count, rows) < kMostRows) return std::nullopt;
  const bool pairs = rows.front().chosen.has_value();
  Verdict out{.code = "DATA-16", .level = Level::kWarn};
  out.what = std::string(pairs ? "the chosen completions" : "the answers") + " of " +
             of_first_rows(count, rows) + " begin with the whole prompt";
  out.evidence = first_shown(
      rows, repeats, [](const RowTexts& row) { return row.completion ? *row.completion : *row.chosen; });
  out.cause = "suspected: a column that holds prompt and answer, beside a column prompt";
  out.fix =
      pairs
          ? "leave out the column prompt (it is then taken from chosen and rejected), or the prompt from both sides"
          : "one column text, or a completion without the prompt";
  out.cost = "the prompt is there twice: a model that repeats the question";
  return out;
}

// ---- answers that end at one length
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool has_open_end(const std::string& text) {
  return !text.empty() && (std::isalnum(static_cast<unsigned char>(text.back())) != 0 || text.back() == ' ' ||
                           text.back() == ',');
}

std::optional<Verdict> check_cut_in_file(const Rows& rows) {
  std::size_t longest = 0;
  for (const RowTexts& row : rows)
    longest = std::max(longest, answer_of(row) ? characters(*answer_of(row)) : 0);
  const auto is_longest = [&](const RowTexts& row) {
    const auto& answer = answer_of(row);
    return answer && characters(*answer) == longest && answer->find(' ') != std::string::npos;
  };
  const std::int64_t count = count_texts(rows, is_longest);
  const double share = share_of_texts(count, rows);
  if (longest < kCutBytes || count < 5 || share < kCutShare || share > 1 - kFew) return std::nullopt;
  // Lengths of answers that a template fills in lie close together.
  std::set<std::size_t> lengths;
  for (const RowTexts& row : rows) {
    if (answer_of(row)) lengths.insert(characters(*answer_of(row)));
  }
  const bool spread = static_cast<double>(*lengths.begin()) <= kShortest * static_cast<double>(longest);
  if (lengths.size() < kLengths || !spread) return std::nullopt;
  std::set<std::string> different;
  std::int64_t open = 0;
  for (const RowTexts& row : rows) {
    if (!is_longest(row)) continue;
    different.insert(*answer_of(row));
    open += has_open_end(*answer_of(row)) ? 1 : 0;
  }
  if (static_cast<double>(open) < kOpenEnds * static_cast<double>(count) ||
      2 * static_cast<std::int64_t>(different.size()) < count)
    return std::nullopt;
  Verdict out{.code = "DATA-16", .level = Level::kWarn};
  out.what = of_first_rows(count, rows) + " have an answer of " + std::to_string(longest) +
             " characters, the most of all, and most of them end within a sentence";
  out.evidence = first_shown(rows, is_longest, [](const RowTexts& row) {
    const std::string& text = *answer_of(row);
    return "... " + text.substr(text.size() - std::min<std::size_t>(text.size(), 40));
  });
  out.cause = "suspected: the file was made with a limit of " + std::to_string(longest) +
              " characters, or a max_tokens";
  out.not_this = "max_length: these are the rows as they are in the file";
  out.fix = "the whole answers from where they came, or remove these rows";
  out.cost = "a model that stops within a sentence";
  return out;
}

// ---- answers in a column that is not read
std::optional<Verdict> check_unread_answer(const Rows& rows) {
  for (const char* const name :
       {"answer", "answers", "completion", "output", "response", "solution", "target", "label"}) {
    const auto is_unread = [name](const RowTexts& row) {
      if (!row.text) return false;
      const auto found = row.row->find(name);
      if (found == row.row->end() || !found->is_string()) return false;
      const std::string answer = trimmed_text(found->get<std::string>());
      return !answer.empty() && !holds_word(*row.text, answer);
    };
    const std::int64_t count = count_texts(rows, is_unread);
    if (share_of_texts(count, rows) < kMostRows) continue;  // short answers are in some texts by chance
    // Categories of the text, as many data sets have them, are few.
    std::set<std::string> values;
    for (const RowTexts& row : rows) {
      if (is_unread(row)) values.insert((*row.row)[name].get<std::string>());
    }
    if (std::string_view(name) == "label" && 4 * static_cast<std::int64_t>(values.size()) < count) continue;
    Verdict out{.code = "DATA-16", .level = Level::kWarn};
    out.what = "the column " + std::string(name) +
               " is not read, and its texts are nowhere in the texts that are trained, in " +
               of_first_rows(count, rows);
    out.evidence =
        first_shown(rows, is_unread, [](const RowTexts& row) { return *row.text; }) + " is all of a row";
    out.cause = "suspected: the answers are in a column of their own, and the run trains the questions";
    out.fix = "dataset_columns: {question: prompt, " + std::string(name) +
              ": completion} with the names of your columns, or text_template";
    out.cost = "a model that learns to ask";
    return out;
  }
  return std::nullopt;
}

// ---- prompt and completion the wrong way round
std::optional<Verdict> check_swapped_sides(const Rows& rows) {
  const auto asks = [](const std::optional<std::string>& text) {
    return text && trimmed_text(*text).ends_with("?");
  };
  std::size_t prompts = 0, completions = 0;
  for (const RowTexts& row : rows) {
    if (!row.prompt || !row.completion || !row.roles.empty()) return std::nullopt;
    prompts += row.prompt->size();
    completions += row.completion->size();
  }
  const auto is_turned = [&](const RowTexts& row) { return asks(row.completion); };
  const std::int64_t turned = count_texts(rows, is_turned);
  const std::int64_t asking = count_texts(rows, [&](const RowTexts& row) { return asks(row.prompt); });
  if (share_of_texts(turned, rows) < kNearlyAll || share_of_texts(asking, rows) > kFew ||
      prompts > completions)
    return std::nullopt;
  Verdict out{.code = "DATA-16", .level = Level::kWarn};
  out.what =
      of_first_rows(turned, rows) + " have a question as their completion, and hardly any as their prompt";
  out.evidence = first_shown(rows, is_turned,
                             [](const RowTexts& row) { return *row.prompt + "` -> `" + *row.completion; });
  out.cause = "suspected: prompt and completion are the wrong way round";
  out.fix = "dataset_columns: {prompt: completion, completion: prompt}, unless the run is to ask questions";
  out.cost = "a model that asks the question which an answer belongs to";
  return out;
}

// ---- one system turn in a part of the rows
std::optional<Verdict> check_system(const Rows& rows) {
  std::map<std::string, std::int64_t> texts;
  for (const RowTexts& row : rows) {
    if (row.system) texts[*row.system] += 1;
  }
  if (texts.size() != 1) return std::nullopt;
  const std::int64_t count = texts.begin()->second;
  if (share_of_texts(count, rows) < 0.1 || share_of_texts(count, rows) > 0.9) return std::nullopt;
  Verdict out{.code = "DATA-16", .level = Level::kNote};
  out.what = of_first_rows(count, rows) + " have a system turn, all the same one; the others have none";
  out.cause = "rows of two sources, or a system prompt that was added to a part of them";
  out.fix = "the same first turn in all rows, if they are of one task";
  return out;
}

}  // namespace

Verdicts check_row_texts(const train::RunView& run) {
  if (run.samples()) return {};
  Verdicts out;
  if (auto named = check_named_template(run)) out.push_back(*std::move(named));
  const std::vector<FirstRow> first = read_first_rows(run, kTextRows);
  const Rows rows = texts_of(first, run.plan.dataset_text_field);
  if (rows.size() < kLeastTexts) return out;
  for (std::optional<Verdict>& one :
       std::array{check_markers(rows, run), check_roles(rows), check_answer_role(rows), check_encoding(rows),
                  check_lines(rows), check_empty(rows), check_repeated_prompt(rows), check_cut_in_file(rows),
                  check_unread_answer(rows), check_swapped_sides(rows), check_system(rows)}) {
    if (one) out.push_back(*std::move(one));
  }
  if (out.empty()) {
    out.push_back({.code = "DATA-16",
                   .what = "the texts of the first " +
                           format::counted(static_cast<std::int64_t>(rows.size()), "row") +
                           " have questions and answers in their places"});
  }
  return out;
}

}  // namespace hone::doctor
