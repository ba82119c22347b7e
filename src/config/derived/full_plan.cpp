#include "config/derived/full_plan.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "config/derived/adapter_parts.h"
#include "config/options/idle_options.h"

namespace hone::config {
namespace {

constexpr const char* kUnfrozen = "unfrozen_parameters";
constexpr const char* kSpectrum = "spectrum_config_path";

// The lines "- pattern" of a Spectrum file, as its users read it: without YAML's rules.
std::vector<std::string> patterns_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.starts_with("- ")) out.push_back(line.substr(2));
  }
  return out;
}

void exclude(const Settings& settings, const char* option, const std::string& cause, const std::string& fix) {
  if (!settings.changed(option)) return;
  conflict(settings, option, fmt::format("use_peft: true with {}", option), "use_peft: false", cause, fix);
}

}  // namespace

void resolve_full(Settings& settings) {
  const std::string path = settings.text(kSpectrum);
  if (path.empty() || settings.flag("use_peft")) return;
  if (settings.changed(kUnfrozen)) {
    conflict(settings, kSpectrum, fmt::format("{} or {}", kSpectrum, kUnfrozen), "both",
             "each names the weights that are trained", "remove one of them");
  }
  const std::vector<std::string> patterns = patterns_of(base::read_text(path));
  if (patterns.empty()) {
    conflict(settings, kSpectrum, fmt::format("a file with lines '- PATTERN' as {}", kSpectrum), path,
             "it is not the list of unfrozen_parameters that Spectrum writes",
             fmt::format("name that file, or write the patterns as {}", kUnfrozen));
  }
  settings.replace(kUnfrozen, patterns);
  settings.replace(kSpectrum, nullptr);
}

namespace {

// What can be divided among ranks, or kept on a disk, in this run.
void finish_division(Plan& plan) {
  std::int64_t& stage = plan.zero_stage;
  const auto lower = [&](std::int64_t to, const std::string& why) {
    if (stage <= to) return;
    plan.notes.push_back(fmt::format("zero_stage {}: {} here, {}", stage, to, why));
    stage = to;
  };
  const bool divides = learn::divides(plan.optim);
  const std::string state = "a step of this optim on a tensor needs all of it";
  if (!divides) lower(0, state);
  if (!divides && !plan.offload_folder.empty()) {
    plan.notes.push_back(fmt::format("offload_folder: not used, {}", state));
    plan.offload_folder.clear();
  }
  if (plan.layer_form == LayerForm::kAutograd)
    lower(1, "the plain layer form has the gradients of all layers at once");
  if (plan.sync_ref_model) lower(2, "because a reference that moves takes all weights of the policy");
  if (samples(plan.method)) lower(2, "because sampling reads all weights for every token");
}

}  // namespace

void finish_full(Plan& plan, const Settings& settings) {
  if (plan.use_peft) {
    for (const std::string& name : split_words(kOnlyOfFullTraining)) {
      if (settings.changed(name))
        plan.notes.push_back(fmt::format("{}: not used, an adapter is trained (use_peft: true)", name));
    }
    return;
  }
  finish_division(plan);
  plan.layers_to_transform = layer_numbers(settings);
  if (!plan.layers_to_transform.empty() && !plan.unfrozen_parameters.empty()) {
    conflict(settings, "layers_to_transform", fmt::format("layers_to_transform or {}", kUnfrozen), "both",
             "with use_peft: false each names the weights that are trained",
             fmt::format("remove one of them; {} can name layers: 'model.layers.(0|1)[.]'", kUnfrozen));
  }
  for (const std::string& name : split_words(kOnlyOfAdapters)) {
    if (settings.is_set(name) && settings.changed(name))
      plan.notes.push_back(fmt::format("{}: not used, the whole model is trained (use_peft: false)", name));
  }
  plan.init_lora_weights = LoraInit::kTrue;
  for (const char* name : {"load_in_4bit", "load_in_8bit"}) {
    if (settings.flag(name)) {
      exclude(settings, name, "codes of 4 or 8 bits cannot take the small steps of training",
              fmt::format("set use_peft: true, or remove {}", name));
    }
  }
  exclude(settings, "adapter_name_or_path", "there is no adapter to continue",
          "set use_peft: true; or merge it into the model first (hone merge), and train that");
  exclude(settings, "base_adapters",
          "all weights are trained, and adapters below them are none of the model's",
          "set use_peft: true; or merge them into the model first (hone merge), and train that");
}

}  // namespace hone::config
