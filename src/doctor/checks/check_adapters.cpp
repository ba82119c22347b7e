// GRAD-06, GRAD-07, PREF-03: where the adapters sit, what they miss, and their dropout.
#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "model/config/families.h"
#include "model/config/mixer.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kLargeRole = 0.5;
constexpr double kUsualDropout = 0.05;  // TRL's default: runs with it are not at fault
constexpr double kFewAdapted = 0.05;    // of the layers; q_proj and v_proj alone are 6 % and more

struct Role {
  std::string_view name;
  std::vector<std::string_view> paths;  // of the families' names
  std::string modules = {};             // "q_proj, k_proj, v_proj, o_proj"
  std::int64_t parameters = 0, adapted = 0;
};

std::array<Role, 2> coverage(const model::CausalLm& model) {
  Role mixers{"attention", {}};
  for (const model::Mixer* const mixer : model::mixers_of(model.config())) {
    if (!mixer->attends()) mixers.name = mixer->words().role;
    mixers.paths.push_back(mixer->words().path);
  }
  std::array<Role, 2> out = {mixers, Role{"MLP", {".mlp.", ".feed_forward.", ".block_sparse_moe."}}};
  std::set<const ops::Linear*> stacked;  // experts, by the LoRA on all of them
  for (const model::DecoderLayer& layer : model.layers()) {
    for (const model::LinearStack& stack : layer.stacks()) {
      if (!stack.linear->lora) continue;
      for (const std::vector<ops::Linear*>& expert : stack.experts)
        stacked.insert(expert.begin(), expert.end());
    }
  }

  for (const ops::Linear* linear : model.linears()) {
    for (Role& role : out) {
      const bool plays = std::any_of(role.paths.begin(), role.paths.end(), [&](std::string_view path) {
        return linear->name.find(path) != std::string::npos;
      });
      if (!plays) continue;
      const std::int64_t size = linear->weight.out() * linear->weight.in();
      role.parameters += size;
      const std::string module = linear->name.substr(linear->name.rfind('.') + 1);
      if (role.modules.find(module) == std::string::npos)
        role.modules += (role.modules.empty() ? "" : ", ") + module;
      if (linear->lora || stacked.contains(linear)) role.adapted += size;
    }
  }
  return out;
}

std::string linears_of_a_layer(const model::CausalLm& model) {
  const std::size_t count = model.layers().front().linears().size();
  return " of the " + (count == 7 ? std::string("seven") : std::to_string(count)) + " linears of a layer";
}

// Full fine-tuning: what is frozen, by name.
Verdict check_frozen(const train::RunView& run) {
  constexpr std::size_t kShown = 3;
  std::string names;
  std::size_t frozen = 0;
  for (const model::TensorSpec& spec : model::expected_tensors(run.model->config())) {
    const auto& trained = run.adapter->whole();
    const bool is_trained =
        std::any_of(trained.begin(), trained.end(),
                    [&](const adapters::WholeTensor& one) { return one.name == spec.name; });
    if (is_trained || spec.is_buffer) continue;
    if (frozen < kShown) names += (frozen == 0 ? "" : ", ") + spec.name;
    ++frozen;
  }
  Verdict out{.code = "GRAD-06"};
  out.what = format::counted(run.start.trained.parameters, "parameter") + " of " +
             format::counted(run.start.trained.base_parameters, "parameter") + " are trained";
  out.evidence =
      frozen == 0
          ? "no tensor is frozen"
          : "frozen: " + names + (frozen > kShown ? " and " + std::to_string(frozen - kShown) + " more" : "");
  return out;
}

// What puts an adapter on `modules`, or on all of the layers (empty). PEFT reaches stacked experts by names of
// target_modules in some families only, and refuses dropout on them.
std::string fix_of(const train::RunView& run, const std::string& modules, bool of_mlp) {
  const model::ModelConfig& config = run.model->config();
  const model::ExpertNames& names = model::traits_of(config.family).experts;
  const std::string keep = "; keep it if this is intended";
  const bool experts = config.experts.count > 0 && of_mlp;
  if (experts && !names.renamed_targets)
    return "lora_target_parameters: [experts.gate_up_proj, experts.down_proj], with lora_dropout: 0" + keep;
  return "lora_target_modules: all-linear" + (modules.empty() ? "" : ", or add " + modules) +
         (experts ? ", with lora_dropout: 0" : "") + keep;
}

Verdict check_coverage(const train::RunView& run) {
  if (run.adapter->is_full()) return check_frozen(run);
  const auto total = static_cast<double>(run.model->parameter_count());
  Verdict out{.code = "GRAD-06"};
  double in_roles = 0, adapted = 0;
  std::string table;
  for (const Role& role : coverage(*run.model)) {
    const auto parameters = static_cast<double>(role.parameters);
    in_roles += parameters;
    adapted += static_cast<double>(role.adapted);
    table += std::string(role.name) + " " + format::percent(static_cast<double>(role.adapted), parameters) +
             " adapted (" + format::percent(parameters, total) + " of the parameters), ";
    if (role.adapted > 0 || parameters <= kLargeRole * total) continue;
    // PEFT's own choice of the modules is no mistake of the user's.
    out.level = run.plan.lora_target_modules.empty() ? Level::kNote : Level::kWarn;
    out.what = "the adapters leave out the " + std::string(role.name) + ", which holds " +
               format::percent(parameters, total) + " of the parameters";
    out.cause = "lora_target_modules names " + std::to_string(run.start.trained.modules.size()) +
                linears_of_a_layer(*run.model);
    out.fix = fix_of(run, role.modules, role.name == "MLP");
  }
  if (out.level == Level::kOk && adapted < kFewAdapted * in_roles) {
    out.level = Level::kWarn;
    out.what = "the adapters cover " + format::percent(adapted, in_roles) + " of the layers' parameters";
    out.cause = "lora_target_modules names " + std::to_string(run.start.trained.modules.size()) +
                linears_of_a_layer(*run.model);
    out.fix = fix_of(run, "", /*of_mlp=*/true);
  }
  const std::int64_t rows = run.start.trained.token_rows;
  out.evidence = table + "embeddings and head " +
                 (rows > 0                           ? format::counted(rows, "row") + " of them"
                  : run.model->trains_only_linears() ? "not"
                                                     : "in part") +
                 " (" + format::percent(total - in_roles, total) + ")";
  if (out.level == Level::kOk) {
    out.what = "LoRA on " + format::counted(run.start.trained.modules_matched, "linear") + ", " +
               format::counted(run.start.trained.parameters, "parameter");
  }
  return out;
}

// Prompt learning, which would read another head, is not there.
Verdict check_head(const train::RunView& run) {
  if (run.model->trained_parts().head.defined() && run.start.memory.fused_layer) {
    return {.code = "GRAD-07",
            .what = "the tiled loss reads the head that is trained, and computes its gradient",
            .evidence = "tests/train/fused_form_test.cpp"};
  }
  if (run.model->head_linear().lora || run.model->trained_parts().head.defined()) {
    return {.code = "GRAD-07",
            .what =
                "the logits of this run are made of the head's matrix and what is trained of it (layer form "
                "plain)",
            .evidence = "tests/parity/tiny_models_test.cpp"};
  }
  if (run.start.trained.token_rows > 0 && run.start.trained.tied_head) {
    return {.code = "GRAD-07",
            .what =
                "the tiled loss reads the rows of the head that trainable_token_indices trains, and computes "
                "their gradient",
            .evidence = "tests/ops/head_rows_test.cpp; tests/parity/tiny_models_test.cpp"};
  }
  return {.code = "GRAD-07",
          .what = "the head has no adapter in this run, so the tiled loss reads all of its weights",
          .evidence = "tests/ops/linear_logprob_test.cpp"};
}

// The sampler never drops, and what it records is the old log-probability.
Verdict check_dropout(const train::RunView& run) {
  const double dropout = run.adapter->config().dropout;
  Verdict out{.code = "PREF-03"};
  if (dropout == 0) {
    out.what = "no dropout in a method that compares log-probabilities";
    return out;
  }
  out.level = dropout > kUsualDropout ? Level::kWarn : Level::kNote;
  out.what = "lora_dropout " + format::number(dropout) + " in a method that compares log-probabilities";
  out.evidence = run.samples()
                     ? "the sampler has no dropout, the trainer's passes do: ratios differ from 1 on the "
                       "first pass, and ratio_gap cannot be computed"
                     : "the reference has no dropout, the policy does: the margins contain that noise";
  out.cause = "TRL's default lora_dropout is 0.05, and disable_dropout false";
  out.fix = "lora_dropout: 0.0  (or disable_dropout: true)";
  out.cost = "noise in every ratio and KL; rarely fatal";
  if (out.level == Level::kWarn) out.repair = {{"disable_dropout", "true"}};
  return out;
}

}  // namespace

Verdicts check_adapters(const train::RunView& run) {
  Verdicts out = {check_coverage(run), check_head(run)};
  if (!run.has_examples()) out.push_back(check_dropout(run));
  return out;
}

}  // namespace hone::doctor
