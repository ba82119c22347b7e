#include "config/derived/finish_recipe.h"

#include <fmt/format.h>

#include "config/datasets/named_templates.h"

namespace hone::config {
namespace {

// Jinja text, the name of a file as chat_template_path has it, or of a template (find_named_template).
void finish_template(Plan& plan, const Settings& settings) {
  if (plan.chat_template.empty()) return;
  if (!plan.chat_template_path.empty()) {
    conflict(settings, "chat_template", "chat_template or chat_template_path, not both", "both", "",
             "remove one of the two");
  }
  if (is_template_text(plan.chat_template)) return;
  if (!plan.chat_template.ends_with(".jinja") && !plan.chat_template.ends_with(".j2")) return;
  plan.chat_template_path = plan.chat_template;
  plan.chat_template.clear();
}

}  // namespace

void finish_recipe(Plan& plan, const Settings& settings) {
  finish_template(plan, settings);
  if (plan.tokenizer_name_or_path == plan.model_name_or_path) plan.tokenizer_name_or_path.clear();
  if (plan.overwrite_output_dir && !plan.resume_from_checkpoint.empty()) {
    plan.overwrite_output_dir = false;  // transformers resumes, and never removes anything
    plan.notes.emplace_back("overwrite_output_dir: not used with resume_from_checkpoint");
  }
  if (settings.changed("save_total_limit") && plan.save_total_limit < 1) {
    plan.notes.push_back(fmt::format("save_total_limit: {} keeps every checkpoint, as in transformers",
                                     plan.save_total_limit));
    plan.save_total_limit = 0;
  }
}

}  // namespace hone::config
