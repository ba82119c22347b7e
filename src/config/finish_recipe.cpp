#include "config/finish_recipe.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace hone::config {
namespace {

bool is_template_text(const std::string& value) {
  return value.find("{{") != std::string::npos || value.find("{%") != std::string::npos;
}

// Jinja text, or the name of a file as chat_template_path has it.
void finish_template(Plan& plan, const Settings& settings) {
  if (plan.chat_template.empty()) return;
  if (!plan.chat_template_path.empty()) {
    conflict(settings, "chat_template", "chat_template or chat_template_path, not both", "both", "",
             "remove one of the two");
  }
  if (is_template_text(plan.chat_template)) return;
  if (!plan.chat_template.ends_with(".jinja")) {
    conflict(settings, "chat_template", "Jinja text or a .jinja file as chat_template",
             fmt::format("'{}'", base::cut_text(plan.chat_template, 200)),
             "the name of a template of another program",
             "write the template itself, or remove it for the model's own");
  }
  plan.chat_template_path = plan.chat_template;
  plan.chat_template.clear();
}

}  // namespace

void finish_recipe(Plan& plan, const Settings& settings) {
  finish_template(plan, settings);
  if (plan.tokenizer_name_or_path == plan.model_name_or_path) plan.tokenizer_name_or_path.clear();
  if (plan.overwrite_output_dir && !plan.resume_from_checkpoint.empty()) {
    conflict(settings, "overwrite_output_dir", "overwrite_output_dir or resume_from_checkpoint, not both",
             "both", "the checkpoint would be removed before it is read", "remove one of the two");
  }
}

}  // namespace hone::config
