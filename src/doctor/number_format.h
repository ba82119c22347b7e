// How the doctor formats numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/verdict.h"
#include "config/plan.h"

namespace hone::doctor {

// Three significant digits: "0.184", "2.1e-07", "12"; what is not finite as "nan" or "inf".
std::string short_number(double value);
// "98 %"; below 1 % and above 99 % with a digit, but 0 and 100 exactly.
std::string percent(double share);
// part / whole; 0 of nothing.
double share(std::int64_t part, std::int64_t whole);
// At most `limit` bytes of `text` on one line, its end when `from_end`: "...the last words". Control
// characters become spaces; never cuts inside a UTF-8 character.
std::string excerpt(std::string_view text, std::size_t limit, bool from_end = false);

// Online DPO calls max_completion_length max_new_tokens.
void name_options_of(const config::Plan& plan, base::Verdict& verdict);

}  // namespace hone::doctor
