// How the checks format numbers, and queries that several of them use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/strings/plural.h"
#include "train/batches/rollout_source.h"
#include "train/opening/run_view.h"

namespace hone::doctor::format {

std::string percent(double part, double whole);  // "12.5 %"; "0 %" when whole is 0
std::string number(double value);                // three digits: "2e-05", "0.25", "1024"
using base::counted;                             // "1 row", "3 rows"
std::string token(const text::Tokenizer& tokenizer, std::int64_t id);  // "`<|im_end|>` (id 2)"
std::string shown(std::string_view text, std::size_t most = 60);  // one line, control characters written out

// An option as in plan.yaml; empty: not set and not written.
std::string resolved(const config::Plan& plan, std::string_view option);

// The fix of rows that max_length cuts: a max_length of `wanted`, or what else there is where it is above the
// model's positions. `keeps`: what that length does.
std::string raise_max_length(const train::RunView& run, std::int64_t wanted, std::int64_t longest,
                             std::string_view keeps);

// A column with the correct answer, by the names that data sets use (answer, solution, ...); "" when there is
// none.
std::string gold_column(const train::PolicyPrompts& prompts);
bool is_gold_name(const std::string& column);
// The text of a column's value: strings as they are, other values as JSON; empty: null.
std::optional<std::string> column_text(const base::Json& columns, const std::string& name);

}  // namespace hone::doctor::format
