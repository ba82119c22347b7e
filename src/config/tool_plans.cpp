#include "config/tool_plans.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "config/parse.h"

namespace hone::config {
namespace {

using base::UserError;

Settings read(const Schema& schema, const std::vector<std::string>& arguments) {
  Settings settings(schema);
  settings.read_arguments(arguments);
  return settings;
}

std::string needed(const Settings& settings, const std::string& name) {
  const std::string value = settings.text(name);
  if (!value.empty()) return value;
  throw UserError({.where = fmt::format("hone {}", settings.schema().command),
                   .expected = fmt::format("option --{}", name),
                   .found = "it is not set",
                   .cause = {},
                   .fix = fmt::format("`hone {} --help` lists the options", settings.schema().command)});
}

// The output is a new folder: nothing of the user's is written over.
void require_new(const std::string& output, const std::string& where) {
  std::error_code ignored;
  if (!std::filesystem::exists(output, ignored)) return;
  if (std::filesystem::is_directory(output, ignored) && std::filesystem::is_empty(output, ignored)) return;
  throw UserError({.where = where,
                   .expected = "a new folder as output",
                   .found = fmt::format("'{}' exists", output),
                   .cause = {},
                   .fix = "name another folder, or remove this one"});
}

}  // namespace

GeneratePlan parse_generate(const std::vector<std::string>& arguments) {
  const Settings settings = read(generate_schema(), arguments);
  GeneratePlan plan;
  plan.notes = settings.check();
  plan.model_name_or_path = needed(settings, "model_name_or_path");
  plan.adapter_name_or_path = settings.text("adapter_name_or_path");
  plan.prompts = settings.list("prompt");
  plan.prompts_file = settings.text("prompts");
  plan.chat = settings.maybe_flag("chat");
  plan.max_new_tokens = settings.integer("max_new_tokens");
  plan.temperature = settings.number("temperature");
  plan.top_k = settings.integer("top_k");
  plan.top_p = settings.number("top_p");
  plan.seed = settings.integer("seed");
  plan.precision = resolve_precision(settings);
  plan.threads = settings.integer("threads");
  plan.output = settings.text("output");
  if (plan.prompts.empty() && plan.prompts_file.empty()) {
    throw UserError({.where = "hone generate",
                     .expected = "something to complete",
                     .found = "neither --prompt nor --prompts",
                     .cause = {},
                     .fix = "write --prompt 'TEXT', or --prompts FILE.jsonl with a prompt column"});
  }
  const bool samples = plan.temperature > 0;
  for (const char* name : {"top_k", "top_p"}) {
    if (samples || !settings.is_set(name)) continue;
    plan.notes.push_back(
        fmt::format("{}: has no effect at temperature 0, which always takes the likeliest token", name));
  }
  require_model_path(plan.model_name_or_path, "model_name_or_path", settings.where("model_name_or_path"));
  if (!plan.adapter_name_or_path.empty()) {
    require_adapter_path(plan.adapter_name_or_path, settings.where("adapter_name_or_path"));
  }
  if (!plan.prompts_file.empty()) require_file(plan.prompts_file, "prompts", settings.where("prompts"));
  return plan;
}

ConvertPlan parse_convert(const std::vector<std::string>& arguments) {
  const Settings settings = read(convert_schema(), arguments);
  ConvertPlan plan;
  plan.notes = settings.check();
  plan.input = needed(settings, "input");
  plan.output = needed(settings, "output");
  const std::string dtype = settings.text("dtype");
  plan.dtype = dtype == "float32"   ? StorageType::kFloat32
               : dtype == "float16" ? StorageType::kFloat16
                                    : StorageType::kBFloat16;
  require_model_path(plan.input, "input", settings.where("input"));
  require_new(plan.output, settings.where("output"));
  return plan;
}

MergePlan parse_merge(const std::vector<std::string>& arguments) {
  const Settings settings = read(merge_schema(), arguments);
  MergePlan plan;
  plan.notes = settings.check();
  plan.adapter_name_or_path = needed(settings, "adapter_name_or_path");
  plan.output = needed(settings, "output");
  plan.model_name_or_path = settings.text("model_name_or_path");
  require_adapter_path(plan.adapter_name_or_path, settings.where("adapter_name_or_path"));
  if (!plan.model_name_or_path.empty()) {
    require_model_path(plan.model_name_or_path, "model_name_or_path", settings.where("model_name_or_path"));
  }
  require_new(plan.output, settings.where("output"));
  return plan;
}

}  // namespace hone::config
