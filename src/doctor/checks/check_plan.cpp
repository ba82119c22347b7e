// config: the options by themselves, and against the model and the data.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <array>
#include <iterator>

#include "base/enum_names.h"
#include "base/process/instruction_level.h"
#include "config/method_traits.h"
#include "doctor/attempt.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

std::string_view describe_precision(config::Precision precision) {
  static constexpr std::array<std::string_view, 3> kNames = {
      "everything in float32", "matrix products in bfloat16, the rest in float32",
      "the base in bfloat16, norms, softmax and loss in float32"};
  return base::enum_name(kNames, precision);
}

// NUM-03. fp16, and dtype float16, are refused by the option table before anything is opened.
Verdict check_precision(const train::RunView& run) {
  return {.code = "NUM-03",
          .what = "no float16: adapters and their moments are float32, " +
                  std::string(describe_precision(run.plan.precision))};
}

// GRAD-01 to GRAD-03: the fault is reentrant checkpointing's, which needs a graph of autograd.
Verdicts check_recompute(const train::RunView& run) {
  const train::MemoryPlan& memory = run.start.memory;
  const std::string asked = format::resolved(run.plan, "gradient_checkpointing_kwargs");
  const bool reentrant =
      asked.find("use_reentrant") != std::string::npos && asked.find("true") != std::string::npos;
  Verdict cut{.code = "GRAD-01"};
  if (memory.fused_layer) {
    cut.what = "impossible here (hand-written backward): recompute " +
               std::string(train::recompute_name(memory.recompute)) +
               " runs inside a hand-written backward, which needs no gradient at the embeddings";
    cut.evidence =
        "tests/train/fused_form_test.cpp: gradients equal the autograd form's, and are bit-equal at every "
        "level";
  } else {
    cut.what = "impossible here: the autograd layer (plain) keeps its activations, nothing is checkpointed";
  }
  if (reentrant) cut.what += "; use_reentrant: true is ignored";
  Verdicts out = {cut};
  if (run.samples()) {
    out.push_back(
        {.code = "GRAD-03",
         .what = "sampling and reference passes run without autograd by design: no warning, nothing lost"});
  }
  return out;
}

// RL-13: by what the loss is divided (learn/policy_loss.h has the formulas).
Verdict check_denominator(const config::Plan& plan) {
  const config::PolicyPlan& policy = plan.policy;
  const config::MethodTraits& method = config::method_traits(plan.method);
  const std::string type = method.only_loss.empty() ? policy.loss_type : std::string(method.only_loss);
  Verdict out{.code = "RL-13"};
  if (!method.rewarded) {
    out.what = "the divergence of every sampled token, divided by the sampled tokens of the step";
    out.evidence = "as TRL 1.16 (tests/parity/trl_distill_test.cpp)";
    return out;
  }
  if (!method.groups) {
    out.what =
        plan.online.loss_type + ": the mean of a micro-batch's pairs, then of the step's micro-batches";
    out.evidence = "tests/parity/trl_online_dpo_test.cpp; TRL 1.16 sums over micro-batches";
    return out;
  }
  bool by_tokens = false;
  if (type == "grpo" || type == "sapo") {
    out.what = type + ": the mean of each completion's tokens, then of all completions";
  } else if (type == "gmpo") {
    out.what = "gmpo: the geometric mean of each completion's ratios, then the mean of all completions";
  } else if (type == "bnpo") {
    out.what = "bnpo: divided by the scored tokens of the step";
    by_tokens = true;
  } else if (type == "dr_grpo") {
    out.what = "dr_grpo: divided by completions x max_completion_length, whatever their lengths";
  } else if (type == "luspo" || type == "rloo") {
    out.what = type + ": summed over each completion, divided by the number of completions";
  } else {
    out.what = type + ": divided by the scored tokens of the generation batch";
    by_tokens = true;
  }
  out.what += "; completions of dead groups count";
  if (policy.mask_truncated_completions) {
    out.what += by_tokens ? ", tokens of truncated ones do not" : ", truncated ones count as empty";
    if (!by_tokens) {
      out.level = Level::kNote;
      out.cause = "mask_truncated_completions removes them only from the numerator, as in TRL";
      out.fix = "loss_type: bnpo or dapo divides by the unmasked tokens";
      out.cost = "the more completions are cut, the smaller the step";
    }
  }
  out.evidence = "as TRL 1.16 (tests/parity/trl_grpo_test.cpp)";
  return out;
}

// RL-16: the option table has a row for each of TRL's options; parsing refuses what has none.
Verdict check_options(const config::Plan& plan) {
  Verdict out{.code = "RL-16"};
  out.what = format::counted(static_cast<std::int64_t>(plan.resolved.size()), "option");
  if (!plan.notes.empty()) out.what += ", " + std::to_string(plan.notes.size()) + " ignored with a note";
  out.evidence = "all were read; an unknown one is an error (tests/runs/bad_option_in_yaml)";
  return out;
}

// ENV-01
Verdict check_environment() {
  Verdict out{.code = "ENV-01"};
  out.what =
      "one program without separate library versions; plan.yaml has every resolved option, including "
      "defaults";
  out.evidence = "libtorch " TORCH_VERSION ", g++ " __VERSION__ ", instructions ";
  out.evidence += base::name_of(base::instruction_level());
  out.evidence += ", " + format::counted(at::get_num_threads(), "thread");
  return out;
}

}  // namespace

Verdicts check_plan(const train::RunView& run) {
  Verdicts out;
  const auto look = [&](std::string_view name, auto check) {
    append(out, attempt(name, [&] { return all_of(check()); }));
  };
  look("config: options", [&] { return check_options(run.plan); });
  look("config: schedule", [&] { return check_schedule(run); });
  look("config: checkpoints", [&] { return check_saves(run); });
  look("config: adapters", [&] { return check_adapters(run); });
  look("config: adapter's base", [&] { return check_adapter_base(run); });
  look("config: learning rate", [&] { return check_rate(run); });
  look("config: optimizer", [&] { return check_optimizer(run); });
  look("config: values", [&] { return check_values(run); });
  look("config: speed", [&] { return check_speed(run); });
  look("config: precision", [&] { return check_precision(run); });
  look("config: recompute", [&] { return check_recompute(run); });
  look("config: environment", [] { return check_environment(); });
  if (!run.samples()) return out;
  look("config: denominator", [&] { return check_denominator(run.plan); });
  look("config: weights", [&] { return check_weights(run); });
  look("config: answers", [&] { return check_answers(run); });
  return out;
}

}  // namespace hone::doctor
