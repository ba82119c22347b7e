#include "commands/process/environment.h"

#include <unistd.h>

#include <string_view>

namespace hone::commands {

parallel::Environment own_environment() {
  parallel::Environment out;
  for (char** one = ::environ; *one != nullptr; ++one) {
    const std::string_view entry = *one;
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos)
      out[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  return out;
}

}  // namespace hone::commands
