// Changes options in a YAML file in place and keeps everything else as the user wrote it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hone::config {

struct EditedYaml {
  std::string text;
  std::vector<std::string> diff;  // "-max_length: 256", "+max_length: 1024"
};

// Sets each option to its value, which is YAML ("1024", "[a, b]"). An existing option keeps its place and the
// comment after it; a new one is added at the end. UserError when the file does not have one `option: value`
// per line, so that the result could be wrong; `file_name` is for that message.
EditedYaml edit_yaml(const std::string& text, const std::vector<std::pair<std::string, std::string>>& changes,
                     const std::string& file_name);

}  // namespace hone::config
