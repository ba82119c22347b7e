// Templates that a tokenizer's folder has by name, as transformers reads them.
#pragma once

#include <string>
#include <vector>

#include "base/files/file.h"
#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

struct NamedTemplate {
  std::string name;
  std::string source;
};

// Jinja text, not a name of a file or a template.
bool is_template_text(const std::string& value);

// Of tokenizer_config.json, whose chat_template may be a list of {name, template}, and of the folder
// additional_chat_templates, which has NAME.jinja; sorted by name. None in a .gguf file.
std::vector<NamedTemplate> named_templates(const base::fs::path& folder);

// chat_template: tool_use becomes that template's text. UserError where the folder has none of that name.
void find_named_template(Plan& plan, const Settings& settings);

}  // namespace hone::config
