// A file that the user names for a command's output, where there is one already.
#pragma once

#include <functional>
#include <string>

#include "base/file.h"

namespace hone::commands {

// UserError when there is a file at `path` that an earlier call of the command did not write: `is_own` says so of its text.
// `what`: "a page of hone"; `example`: of another value of output. An empty file is nothing to lose.
void require_own_output(const base::fs::path& path, const std::string& what, const std::string& example,
                        const std::function<bool(const std::string& text)>& is_own);

// Whether the first line of `text`, or all of it, is a JSON object with both keys.
bool is_object_with(const std::string& text, const char* first, const char* second);

}  // namespace hone::commands
