// Checks that read the texts of rows one by one: each is a line of a table, and one loop asks them all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/verdict.h"
#include "doctor/checks/row_texts.h"

namespace hone::doctor {

// Says what a rule finds in one row, in words that may be printed: "an AWS access key", never the key. Empty: nothing.
using RowFinding = std::optional<std::string>;

struct RowRule {
  std::string_view code;
  base::Level level = base::Level::kWarn;
  RowFinding (*find)(const RowTexts& row) = nullptr;
  // The rule speaks where it finds something in more than `above` of the rows, in less than `below`, and in at least
  // `least` rows. `of_rows`: it is silent where fewer rows are read.
  double above = 0, below = 2;
  std::int64_t least = 1, of_rows = 1;
  std::string_view what;  // behind "12 of the first 500 rows": "hold a secret"
  std::string_view cause, not_this, fix, cost;
};

// A verdict for each rule that speaks. Its evidence is the first row with what was found there, and how often each
// finding occurs where there are several.
std::vector<base::Verdict> judge_rows(std::span<const RowRule> rules, const std::vector<RowTexts>& rows);

// The table: DATA-16 (degenerate answers, reasoning, identity) and DATA-17 (secrets, personal data).
std::span<const RowRule> row_rules();
// The rules of DATA-17, which are of every row, prompts too.
std::span<const RowRule> private_rules();

// Returns what a row trains to say: its completion, its chosen side, or its whole text. Null: none.
const std::string* answer_text(const RowTexts& row);
// Every text of a row, one behind the other.
std::string all_texts(const RowTexts& row);

// A secret by its form: a provider's prefix and enough different characters, or the block of a private key. The
// result names its kind. Placeholders (sk-xxxx, AKIAIOSFODNN7EXAMPLE) are none.
RowFinding find_secret(std::string_view text);
// An e-mail address, a telephone number with its country's code, an IBAN or a payment card whose checksum is right.
// Addresses of example.com and the like are none.
RowFinding find_personal(std::string_view text);

}  // namespace hone::doctor
