// System calls that throw UserErrors, and locks: for file.cpp, staging.cpp and staged_folder.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/files/file.h"

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
// Syncs both folders: the new name is on the disk before the old one is removed.
void rename_synced(const fs::path& from, const fs::path& to);
void remove_or_throw(const fs::path& path);  // recursively; no error when nothing is there

// True for anything at `path`, a dangling link included.
bool is_there(const fs::path& path);

// "." for a name without a folder.
fs::path parent_of(const fs::path& path);

// Tries to lock without waiting; the lock is released when the descriptor and its copies are closed. False
// when another process holds it. True on file systems without locks.
bool try_lock(int fd);

// The open file is still the one at `path` (a link there is another file).
bool is_still_at(int fd, const fs::path& path);

// An open, locked descriptor of `folder`; -1 when another process holds the lock.
int lock_folder(const fs::path& folder);

// UserErrors: another process writes `path`; something at `staged`, hone's name for staging it, is not
// hone's.
[[noreturn]] void throw_busy(const fs::path& path);
[[noreturn]] void throw_not_ours(const fs::path& path, const fs::path& staged, std::string_view found);

// `fd` is about to replace the file or folder at `old`: copies the mode of `old` to it, and the owner if
// permissions allow it. Does nothing when `old` does not exist.
void keep_mode_and_owner(int fd, const fs::path& old);

}  // namespace hone::base
