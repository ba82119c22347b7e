// Options of a YAML file changed in place, with everything else as the user wrote it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hone::config {

struct EditedYaml {
  std::string text;
  std::vector<std::string> diff;  // "-max_length: 256", "+max_length: 1024"
};

// Sets each option to its value, which is YAML ("1024", "[a, b]"). An option that is there keeps its place
// and the comment behind it; another is added at the end. UserError when the file is not written one `option:
// value` a line, so that the result would not say what it should; `file_name` is for that message.
EditedYaml edit_yaml(const std::string& text, const std::vector<std::pair<std::string, std::string>>& changes,
                     const std::string& file_name);

}  // namespace hone::config
