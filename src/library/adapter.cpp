#include "hone/adapter.h"

#include "adapters/peft_files.h"
#include "adapters/whole_modules.h"
#include "base/json_tools.h"
#include "hone/error.h"
#include "library/parts.h"

namespace hone {
namespace {

void refuse(const std::string& where, const std::string& found) {
  throw UserError({.where = where,
                   .expected = "a LoRA of the linears of layers alone",
                   .found = found,
                   .cause = {},
                   .fix = "train it with hone's commands, or with hone::run()"});
}

// The fused pass trains it, and the head is not trained: step.h adds up gradients below the head.
void require_layers_alone(const adapters::LoraConfig& config, const model::CausalLm& model,
                          const std::string& where, bool strict) {
  if (!adapters::fused_trains(config, model.config(), strict)) refuse(where, "one that trains more");
  for (const std::string& name : adapters::select_targets(config, model.config(), strict)) {
    if (name == "lm_head") refuse(where, "one on lm_head");
  }
}

adapters::Adapter attach(model::CausalLm& model, const LoraOptions& options) {
  if (options.r < 1) {
    throw UserError({.where = "hone::LoraOptions::r",
                     .expected = "a rank of 1 or more",
                     .found = std::to_string(options.r),
                     .cause = {},
                     .fix = {}});
  }
  adapters::LoraConfig config;
  config.r = options.r;
  config.alpha = options.alpha;
  config.target_modules = options.target_modules;
  config.target_is_regex = options.target_modules == std::vector<std::string>{"all-linear"};
  require_layers_alone(config, model, "hone::LoraOptions::target_modules", /*strict=*/true);
  return adapters::Adapter::attach(model, config, options.seed);
}

adapters::Adapter loaded(model::CausalLm& model, const std::string& folder) {
  const base::fs::path file = base::fs::path(folder) / adapters::kConfigFile;
  require_layers_alone(
      adapters::config_from_json(base::parse_json(base::read_settings(file), file.string()), file.string()),
      model, folder, /*strict=*/false);
  return adapters::Adapter::load(model, folder);
}

}  // namespace

Adapter::Adapter(Model& model, const LoraOptions& options)
    : parts_(std::make_unique<Parts>(model.parts(), attach(model.parts().model, options))) {
  parts_->adapter.hold_gradient();
  parts_->adapter.set_base_model_name(model.parts().source->path().string());
}

Adapter Adapter::load(Model& model, const std::string& folder) {
  auto parts = std::make_unique<Parts>(model.parts(), loaded(model.parts().model, folder));
  parts->adapter.hold_gradient();
  return Adapter(std::move(parts));
}

Adapter::Adapter(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Adapter::Adapter(Adapter&&) noexcept = default;
Adapter& Adapter::operator=(Adapter&&) noexcept = default;
Adapter::~Adapter() = default;

void Adapter::save(const std::string& folder) const {
  parts_->adapter.save(folder);
}

std::int64_t Adapter::parameters() const {
  return parts_->adapter.flat().numel();
}

}  // namespace hone
