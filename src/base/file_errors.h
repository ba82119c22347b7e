// System calls that throw UserErrors, and locks: for file.cpp, staging.cpp and staged_folder.cpp.
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

void rename_or_throw(const fs::path& from, const fs::path& to);
// Both folders are synced: the name that goes to is on the disk before the one that it had is gone.
void rename_synced(const fs::path& from, const fs::path& to);
void remove_or_throw(const fs::path& path);  // with everything below it; nothing there is no error

// Anything at `path`, also a link that leads nowhere.
bool is_there(const fs::path& path);

// "." for a name without a folder.
fs::path parent_of(const fs::path& path);

// A lock without waiting, given back when the descriptor and its copies are closed. False: another holds it.
// File systems without locks: true.
bool try_lock(int fd);

// The open file is still the one at `path` (a link there is another file).
bool is_still_at(int fd, const fs::path& path);

// An open, locked descriptor of `folder`; -1 when another process holds the lock.
int lock_folder(const fs::path& folder);

// UserErrors: another process writes `path`; something at `staged`, hone's name for staging it, is not
// hone's.
[[noreturn]] void throw_busy(const fs::path& path);
[[noreturn]] void throw_not_ours(const fs::path& path, const fs::path& staged, std::string_view found);

// Gives `fd`, which is to replace the file or folder at `old`, its mode, and its owner as far as the rights
// allow. Nothing at `old`: nothing happens.
void keep_mode_and_owner(int fd, const fs::path& old);

}  // namespace hone::base
