// Sums of integers in a shell script: what stands inside $((...)), and behind expr.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace hone::config {

// "32 / $N", "(A + 2) * 3", "4 \\* 2" with + - * / % and brackets, divided as bash divides. `value_of` gives the text of a
// variable, empty where it is not known. Null: something in it is no integer, or is divided by zero.
std::optional<std::int64_t> shell_sum(std::string_view text,
                                      const std::function<std::string(const std::string&)>& value_of);

}  // namespace hone::config
