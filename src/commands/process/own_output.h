// A file that the user names for a command's output, where there is one already.
#pragma once

#include <functional>
#include <string>

#include "base/files/file.h"

namespace hone::commands {

using IsOwn = std::function<bool(const std::string& text)>;

// Whether there is a file at `path`, not an empty one, of which `is_own` says that an earlier call of the
// command wrote it.
bool is_own_output(const base::fs::path& path, const IsOwn& is_own);

// UserError when there is a file at `path` that an earlier call of the command did not write: `is_own` says
// so of its text. `what`: "a page of hone"; `example`: of another value of output. An empty file is nothing
// to lose.
void require_own_output(const base::fs::path& path, const std::string& what, const std::string& example,
                        const IsOwn& is_own);

// Returns whether the first line of `text`, or all of it, is a JSON object with both keys.
bool is_object_with(const std::string& text, const char* first, const char* second);

}  // namespace hone::commands
