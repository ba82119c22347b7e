// The texts of the first rows, by what they are for: question, answer, chosen, rejected, whole text.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/verdict.h"
#include "doctor/checks/first_rows.h"

namespace hone::doctor {

struct RowTexts {
  std::string where;                // "train.jsonl:12"
  std::optional<std::string> text;  // of a row that is one text
  // prompt: the last question before the answer. For conversations these are the contents of turns.
  std::optional<std::string> prompt, completion, chosen, rejected;
  std::vector<std::string> roles;     // of `messages`, with user and assistant for ShareGPT's names
  std::optional<std::string> system;  // its first turn
  bool calls_tools = false;           // an answer without text may be a call
  std::string answer_role;            // of the last turn of completion or chosen, where these are turns
  const base::Json* row = nullptr;
};

// `text_field`: dataset_text_field. The rows must outlive the result.
std::vector<RowTexts> texts_of(const std::vector<FirstRow>& rows, const std::string& text_field);

std::string trimmed_text(const std::string& text);
// Says whether `word` stands in a text by itself, and not in a longer word or number.
bool holds_word(const std::string& text, const std::string& word);
// "60 of the first 64 rows".
std::string of_first(std::int64_t count, std::size_t whole, const char* noun);
bool is_blank(const std::optional<std::string>& text);  // and not: absent

// ---- DATA-16: answers that end within a sentence at one number of tokens, as a generator's limit cuts them

// True of a text that stops in its midst: behind a letter, a digit, a comma or a blank, or inside a code fence.
bool ends_open(const std::string& text);
// Reads the completions and chosen answers. `tokens`: how many an answer has.
std::optional<base::Verdict> check_cut_answers(const std::vector<RowTexts>& rows,
                                               const std::function<std::size_t(const std::string&)>& tokens);

}  // namespace hone::doctor
