#include "python/program.h"

#include "base/json.h"
#include "python/frames.h"
#include "python/program_text.h"

namespace hone::python {

std::string_view worker_base() {
  return kWorkerBasePython;
}

std::string bootstrap(const Program& program) {
  const auto line = [](const char* name, std::size_t value) {
    return std::string(name) + " = " + std::to_string(value) + "\n";
  };
  return line("PIPE", kWorkerDescriptor) + line("LIFE", kWatcherDescriptor) +
         line("SIZE", program.text.size()) + line("MOST_BYTES", kMaxReplyBytes) +
         "ME = " + base::dump_json("<hone " + program.who + ">") + "\n" + std::string(kWatcherPython);
}

}  // namespace hone::python
