#include "adapters/frozen_adapters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <span>

#include "adapters/expert_targets.h"
#include "adapters/peft_files.h"
#include "adapters/whole_modules.h"
#include "base/error.h"
#include "base/files/crc32c.h"
#include "base/json.h"

namespace hone::adapters {
namespace {

using base::Json;
using base::UserError;
namespace fs = base::fs;

constexpr const char* kFolders = "base_adapters";
constexpr const char* kPrints = "crc32c";

// What it adds is scale times B A: the scale is in the other file.
std::uint32_t print_of(const std::string& folder) {
  const std::uint32_t weights = base::crc32c(base::MappedFile::open(fs::path(folder) / kWeightsFile).bytes());
  const fs::path config = fs::path(folder) / kConfigFile;
  const LoraConfig read =
      config_from_json(base::parse_json(base::read_text(config), config.string()), config.string());
  const double scale = read.scale();
  std::uint32_t out = weights ^ base::crc32c(std::as_bytes(std::span(&scale, 1)));
  for (const auto& [pattern, alpha] : read.alpha_pattern) {
    out = base::crc32c(std::as_bytes(std::span(pattern)), out);
    out = base::crc32c(std::as_bytes(std::span(&alpha, 1)), out);
  }
  return out;
}

std::string concat(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out.empty() ? "none" : out;
}

StoredAdapter read_lora(const std::string& folder, const model::ModelConfig& model) {
  StoredAdapter stored = read_adapter(folder, model);
  require_kind(stored.config, /*score_head=*/false, folder);
  require_no_parameters(stored.config, "option base_adapters: " + folder, "to put it below another one");
  if (!stored.config.token_indices.empty()) {
    throw UserError(
        {.where = "option base_adapters: " + folder,
         .expected = "a LoRA only on linears",
         .found = "one with trainable_token_indices: rows of the embedding",
         .cause = "they are values and not changes that can be added",
         .fix = "hone merge --adapter_name_or_path " + folder + " --output DIR, and train on that model"});
  }
  if (!stored.whole.empty() || trained_ends(stored.config, model).any()) {
    throw UserError(
        {.where = "option base_adapters: " + folder,
         .expected = "a LoRA only on linears of the layers",
         .found = stored.whole.empty() ? "one on the embedding or the head"
                                       : "one with " + stored.whole_names.front() + " trained in full",
         .cause = "the base that it would be part of has one embedding and one head",
         .fix = "hone merge --adapter_name_or_path " + folder + " --output DIR, and train on that model"});
  }
  if (!stored.config.dora) return stored;
  throw UserError(
      {.where = "option base_adapters: " + folder,
       .expected = "a LoRA",
       .found = "DoRA: its rows have magnitudes, which cannot be added",
       .cause = "below another adapter it would give a different model",
       .fix = "hone merge --adapter_name_or_path " + folder + " --output DIR, and train on that model"});
}

}  // namespace

FrozenAdapters attach_frozen(model::CausalLm& model, const std::vector<std::string>& folders) {
  const at::NoGradGuard no_grad;
  FrozenAdapters out{.folders = folders, .checksums = {}};
  struct Parts {
    std::vector<at::Tensor> a, b;
  };
  std::map<std::string, Parts> by_module;
  for (const std::string& folder : folders) {
    const StoredAdapter stored = read_lora(folder, model.config());
    require_same_base(stored, model, folder);
    for (const StoredLora& module : stored.modules) {
      by_module[module.module].a.push_back(module.a * module.scale);
      by_module[module.module].b.push_back(module.b);
    }
    out.checksums.push_back(print_of(folder));
  }
  for (ops::Linear* linear : model.linears()) {
    linear->frozen_lora.reset();
    const auto it = by_module.find(linear->name);
    if (it == by_module.end()) continue;
    // A pack pads a small rank to 32 rows; in float32 that pays off only beside a packed base.
    const bool packs = model.packed() || linear->weight.dtype() == at::kBFloat16;
    const auto side = [&](const at::Tensor& x) {
      const at::Tensor plain = x.to(model.device(), linear->weight.dtype());
      return packs ? ops::Weight::packed_where_possible(plain) : ops::Weight(plain);
    };
    linear->frozen_lora =
        ops::FrozenLora{.a = side(at::cat(it->second.a, 0)), .b = side(at::cat(it->second.b, 1))};
  }
  return out;
}

FrozenAdapters frozen_adapters_of(const std::vector<std::string>& folders) {
  FrozenAdapters out{.folders = folders, .checksums = {}};
  for (const std::string& folder : folders) out.checksums.push_back(print_of(folder));
  return out;
}

FrozenAdapters read_frozen_adapters(const fs::path& adapter) {
  const fs::path path = adapter / kFrozenAdaptersFile;
  std::error_code none;
  if (!fs::exists(path, none)) return {};
  FrozenAdapters out;
  try {
    const Json json = base::parse_json(base::read_text(path), path.string());
    out.folders = json.at(kFolders).get<std::vector<std::string>>();
    out.checksums = json.at(kPrints).get<std::vector<std::uint32_t>>();
  } catch (const Json::exception& error) {
    throw UserError({.where = path.string(),
                     .expected = "the adapters below this one, in hone's format",
                     .found = error.what(),
                     .cause = "the file was edited, or is from another version",
                     .fix = "remove it, and name them by base_adapters"});
  }
  return out;
}

void write_frozen_adapters(const fs::path& adapter, const FrozenAdapters& below) {
  if (below.folders.empty()) return;
  const Json json = {{kFolders, below.folders}, {kPrints, below.checksums}};
  base::write_file_atomic(adapter / kFrozenAdaptersFile, base::dump_json(json, 2) + "\n");
}

std::optional<std::string> frozen_adapters_note(const fs::path& adapter,
                                                const std::vector<std::string>& folders) {
  const FrozenAdapters trained = read_frozen_adapters(adapter);
  const FrozenAdapters given = frozen_adapters_of(folders);
  if (trained.folders.empty() || trained == given) return std::nullopt;
  return adapter.string() + " was trained above " + concat(trained.folders) + ", but base_adapters is " +
         concat(folders) + ": the result is a different model, unless the others are merged into the base";
}

}  // namespace hone::adapters
