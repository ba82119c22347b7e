// The Python that downloads from the hub, embedded by the build: hub_download.py of this folder.
#pragma once

#include <string_view>

namespace hone::commands {

extern const std::string_view kHubDownloadPython;

}  // namespace hone::commands
