// TRL's options by method: a run that sets another method's option is told where it belongs.
#include "config/method_of.h"
#include "config/option_table.h"

namespace hone::config {

std::string other_methods(std::string_view name, std::string_view command) {
  if (!find_method(command)) return {};
  std::string out;
  for (const Option& row : method_options()) {
    if (row.name != name) continue;
    for (const std::string& method : split_words(row.methods)) {
      if (method != command) out += (out.empty() ? "" : ", ") + method;
    }
  }
  return out;
}

}  // namespace hone::config
