// The text of faults.txt, embedded by the build.
#pragma once

#include <string_view>

namespace hone::doctor {

extern const std::string_view kFaultsText;

}  // namespace hone::doctor
