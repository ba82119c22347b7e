// A file of the user's that a worker imports.
#pragma once

#include <string>

namespace hone::python {

// The whole path of `file`, from the working folder. UserError at `where` when there is no such file, with names of Python files beside
// it that are like it.
std::string whole_path(const std::string& file, const std::string& where);

}  // namespace hone::python
