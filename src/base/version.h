// The version of hone, which CMakeLists.txt has.
#pragma once

namespace hone::base {

extern const char* const kHoneVersion;  // such as "0.2.0"; cmake/Rooms.cmake defines it

}  // namespace hone::base
