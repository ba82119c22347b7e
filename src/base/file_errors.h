// UserErrors of failed system calls, for file.cpp and staged_folder.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/file.h"

namespace hone::base {

// errno says that the disk, the quota or the limit on file sizes is exhausted.
bool is_full(int error_number);

// Throws UserError for `error_number` at `path`. `verb`: "write", "read", "rename". `needed`: bytes of the
// whole file when writing, 0 when not known.
[[noreturn]] void throw_system_error(const fs::path& path, std::string_view verb, int error_number,
                                     std::uint64_t needed = 0);

// Fsyncs the file or folder at `path`.
void sync_path(const fs::path& path);

}  // namespace hone::base
