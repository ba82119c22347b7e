#include "commands/base_of_adapter.h"

#include "adapters/frozen_adapters.h"
#include "adapters/merge.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/json.h"
#include "commands/commands.h"
#include "config/hub_names.h"
#include "model/files/weight_source.h"

namespace hone::commands {

std::vector<base::fs::path> adapter_stack(const std::vector<std::string>& below, const std::string& adapter) {
  std::vector<base::fs::path> out(below.begin(), below.end());
  if (adapter.empty()) return out;
  if (const auto note = adapters::frozen_adapters_note(adapter, below)) print_notes({*note});
  out.emplace_back(adapter);
  return out;
}

void print_untied_head(const std::string& base, const std::vector<base::fs::path>& adapters) {
  if (!adapters::unties_head(model::open_weights(base)->config(), adapters)) return;
  print_notes({"head and embedding, which are tied in " + base +
               ", were trained apart: the result has a head of its own (tie_word_embeddings: false)"});
}

std::string base_of_adapter(const std::string& named, const std::string& adapter) {
  if (!named.empty()) return named;
  const base::fs::path path = base::fs::path(adapter) / "adapter_config.json";
  const auto config = base::parse_json(base::read_text(path), path.string());
  if (!config.is_object()) {
    throw base::UserError({.where = path.string(),
                           .expected = "a JSON object",
                           .found = config.type_name(),
                           .cause = "the file was edited, or was not written by PEFT",
                           .fix = "name a folder that PEFT or hone saved"});
  }
  const auto name = config.value("base_model_name_or_path", base::Json(nullptr));
  if (name.is_string() && base::fs::exists(name.get<std::string>())) return name.get<std::string>();
  const auto text = name.is_string() ? name.get<std::string>() : std::string();
  if (const auto snapshot = config::hub_snapshot(config::HubKind::kModel, text, ""))
    return snapshot->string();
  throw base::UserError(
      {.where = path.string(),
       .expected = "base_model_name_or_path to name a folder or file on this machine",
       .found = base::dump_json(name),
       .cause = "the adapter was trained on another machine, or its base is not in Hugging Face's cache",
       .fix = "name the base: --model_name_or_path FOLDER, or its name on the hub"});
}

}  // namespace hone::commands
