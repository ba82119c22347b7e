// The version of hone, which CMakeLists.txt has.
#pragma once

namespace hone::base {

extern const char* const kHoneVersion;  // "0.1.0"; cmake/Rooms.cmake makes the file that defines it

}  // namespace hone::base
