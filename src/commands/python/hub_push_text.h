// The Python that uploads to the hub, embedded by the build: hub_push.py of this folder.
#pragma once

#include <string_view>

namespace hone::commands {

extern const std::string_view kHubPushPython;

}  // namespace hone::commands
