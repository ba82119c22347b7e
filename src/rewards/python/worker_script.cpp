#include "rewards/python/worker_script.h"

#include "rewards/python/worker_frames.h"
#include "rewards/python/worker_text.h"

namespace hone::rewards {

const std::string& worker_script() {
  static const std::string script = std::string(kEndpointPython) + std::string(kWorkerPython);
  return script;
}

std::string worker_bootstrap() {
  const auto line = [](const char* name, std::size_t value) {
    return std::string(name) + " = " + std::to_string(value) + "\n";
  };
  return line("PIPE", kWorkerDescriptor) + line("LIFE", kWatcherDescriptor) +
         line("SIZE", worker_script().size()) + line("MOST_BYTES", kMaxReplyBytes) +
         std::string(kWatcherPython);
}

}  // namespace hone::rewards
