// Text as Python reads it: json.loads, int(), float(). A response template's results depend on their exact
// rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace hone::tools {

// json.loads: NaN and Infinity are numbers, and of a key given twice the last value counts. An integer that
// 64 bits do not hold becomes a double, and half of a surrogate pair U+FFFD; both differ from Python.
// nullopt: no JSON, or more than base::kMaxJsonDepth levels.
std::optional<base::Json> python_loads(std::string_view utf8);

// int(text) and float(text), with white space around, "_" between digits, "inf" and "nan". An integer is a
// value of 64 bits or nullopt.
std::optional<base::Json> python_int(std::string_view text);
std::optional<double> python_float(std::string_view text);

}  // namespace hone::tools
