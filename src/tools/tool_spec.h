// The options `tools` and `environment` name these.
#pragma once

#include <string>
#include <vector>

namespace hone::tools {

struct ToolFile {
  std::string file_or_module;      // "tools.py", an absolute path; or "package.module"
  std::vector<std::string> names;  // of functions, or the one factory
  bool is_file = false;
};

// `word`: "tools.py:search,calc", "package.module:search" or "hone.tools.calculator" (the part behind the last dot is the name). `option`
// is the one that it was written in, for messages. UserError: no file or module, no name, a name twice, a file that is not there
// (nearest names).
ToolFile parse_tool_word(const std::string& word, const std::string& option);

}  // namespace hone::tools
