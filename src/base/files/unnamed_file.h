// A file without a name: gone with its last descriptor, however the process ends.
#pragma once

#include "base/files/file.h"

namespace hone::base {

// The descriptor of an empty file in `folder`, for reading and writing, not for children; the caller closes it. -1,
// with errno, when `folder` is not there or cannot be written.
int unnamed_file(const fs::path& folder);

}  // namespace hone::base
