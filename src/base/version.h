// The version of hone, which CMakeLists.txt has.
#pragma once

namespace hone::base {

extern const char* const kHoneVersion;  // for example "0.2.0"; cmake/Rooms.cmake makes the file that defines it

}  // namespace hone::base
