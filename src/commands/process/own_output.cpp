#include "commands/process/own_output.h"

#include "base/error.h"
#include "base/files/path_kind.h"
#include "base/json.h"

namespace hone::commands {

bool is_own_output(const base::fs::path& path, const IsOwn& is_own) {
  if (!base::is_file(path)) return false;
  const std::string text = base::read_text(path);
  return !text.empty() && is_own(text);
}

void require_own_output(const base::fs::path& path, const std::string& what, const std::string& example,
                        const IsOwn& is_own) {
  if (!base::is_file(path)) return;
  const std::string text = base::read_text(path);
  if (text.empty() || is_own(text)) return;
  throw base::UserError({.where = path.string(),
                         .expected = "a new file, or " + what,
                         .found = "another file",
                         .cause = {},
                         .fix = "name another file: --output " + example});
}

bool is_object_with(const std::string& text, const char* first, const char* second) {
  for (const std::string& one : {text.substr(0, text.find('\n')), text}) {
    const base::Json json = base::Json::parse(one, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) return json.contains(first) && json.contains(second);
  }
  return false;
}

}  // namespace hone::commands
