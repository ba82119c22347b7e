// The version of the library that is loaded.
#pragma once

namespace hone {

// For example "0.2.0". It is find_package(hone)'s version too. Before 1.0 a minor version may change what these headers
// declare.
const char* version();

}  // namespace hone
