// DATA-16: answers that end within a sentence at one number of tokens, as a generator's limit cuts them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/verdict.h"
#include "doctor/checks/row_texts.h"

namespace hone::doctor {

// True of a text that stops in its midst: behind a letter, a digit, a comma or a blank, or inside a code fence.
bool ends_open(const std::string& text);

// Of the completions and chosen answers. `tokens`: how many an answer has.
std::optional<base::Verdict> check_cut_answers(const std::vector<RowTexts>& rows,
                                               const std::function<std::size_t(const std::string&)>& tokens);

}  // namespace hone::doctor
