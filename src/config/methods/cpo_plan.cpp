// The rules of cpo and orpo.
#include <fmt/format.h>

#include "config/methods.h"

namespace hone::config {
namespace {

constexpr int kTrlsLength = 512;  // what TRL takes for max_length: null

void resolve_length(Settings& settings) {
  if (settings.value("max_length").is_null()) settings.replace("max_length", kTrlsLength);
  const base::Json& prompt = settings.value("max_prompt_length");
  if (prompt.is_null() || prompt.get<std::int64_t>() < settings.integer("max_length")) return;
  conflict(settings, "max_prompt_length",
           "max_prompt_length below max_length, which bounds a prompt with its completion",
           fmt::format("{}, with max_length: {}", prompt.dump(), settings.integer("max_length")), "",
           "lower it, or write max_prompt_length: null");
}

// Recipes of SimPO's own trainer: loss_type says sigmoid or hinge there, both of SimPO's margin.
void resolve_simpo_recipe(Settings& settings) {
  const std::string type = settings.is_set("loss_type") ? settings.text("loss_type") : "simpo";
  if (type != "simpo" && type != "alphapo" && type != "sigmoid") {
    conflict(settings, "gamma_beta_ratio", "gamma_beta_ratio with loss_type: simpo",
             fmt::format("loss_type: {}", type), "TRL has SimPO's margin only in simpo",
             "remove gamma_beta_ratio, or take loss_type: simpo");
  }
  if (settings.is_set("simpo_gamma")) {
    conflict(settings, "gamma_beta_ratio", "simpo_gamma or gamma_beta_ratio", "both",
             "gamma_beta_ratio is simpo_gamma / beta", "remove one of them");
  }
  settings.replace("loss_type", "simpo");
  settings.replace("simpo_gamma", settings.number("gamma_beta_ratio") * settings.number("beta"));
  if (!settings.is_set("cpo_alpha")) settings.replace("cpo_alpha", 0.0);
  settings.replace("gamma_beta_ratio", nullptr);  // so that plan.yaml gives the same run again
}

}  // namespace

void resolve_cpo(Settings& settings) {
  resolve_length(settings);
  if (!settings.value("gamma_beta_ratio").is_null()) resolve_simpo_recipe(settings);
  if (settings.text("loss_type") != "alphapo") return;
  settings.replace("loss_type", "simpo");
  settings.replace("cpo_alpha", 0.0);
}

void finish_cpo(Plan& plan, const Settings& settings) {
  if (settings.is_set("gamma_beta_ratio")) {
    plan.notes.push_back(
        fmt::format("gamma_beta_ratio: SimPO's name; loss_type {}, simpo_gamma {}, cpo_alpha {}",
                    plan.cpo.loss_type, plan.cpo.simpo_gamma, plan.cpo.cpo_alpha));
  }
  if (plan.cpo.alpha != 0 && (plan.cpo.loss_type == "sigmoid" || plan.cpo.loss_type == "hinge")) {
    plan.notes.push_back(fmt::format(
        "alpha: {} sums log-probabilities, and p^-alpha of a long completion is too large for a number; simpo averages",
        plan.cpo.loss_type));
  }
}

void resolve_orpo(Settings& settings) {
  resolve_length(settings);
}

}  // namespace hone::config
