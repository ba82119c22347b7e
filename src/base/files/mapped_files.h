// Mapped files that cannot be read any more. A file that is truncated while it is mapped, or whose disk fails, gives SIGBUS at the
// next access, on any thread. A signal handler asks absorb_unreadable(): it puts zeros there, so that the program goes on, and
// what was read is refused by the next require_readable().
#pragma once

#include <cstddef>
#include <string>

namespace hone::base {

// base/files/file.cpp calls these for every mapped file.
void note_mapped(const void* data, std::size_t size, const std::string& path);
void forget_mapped(const void* data);

// For a signal handler: whether `address` lies in a mapped file. If so its page is zeros from now on.
bool absorb_unreadable(const void* address);

// UserError with the file's name when one could not be read since the last call. Costs a load where all is well.
void require_readable();

}  // namespace hone::base
