// How messages describe a row's columns and values.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace hone::data {

std::vector<std::string> columns_of(const base::Json& row);  // the names of an object's members
std::string join(const std::vector<std::string>& names);     // "a, b"; "none"; the first 20
std::string a_type(const base::Json& value);                 // "an empty list", "a number"

}  // namespace hone::data
