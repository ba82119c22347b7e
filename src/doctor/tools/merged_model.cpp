#include "doctor/tools/merged_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "base/strings/plural.h"
#include "doctor/number_format.h"
#include "model/fused_pass.h"
#include "rollout/generate.h"

namespace hone::doctor {

namespace {

constexpr std::int64_t kKept = 64;  // most likely tokens
constexpr double kNearTie = 0.05;   // difference of two probabilities

// Log-probabilities [n, V], on the CPU, of what follows the prompt, where each token of the completion was
// taken.
at::Tensor logprobs_of(const model::CausalLm& model, const GreedyPath& path, bool adapters_on) {
  const ops::PassContext pass = {.adapters_on = adapters_on};
  const auto end = static_cast<std::int64_t>(path.tokens.ids.size());
  model::FusedPass forward(model, path.tokens, pass);
  const at::Tensor hidden = forward.forward(at::arange(path.prompt - 1, end - 1, at::kLong), {});
  return at::log_softmax(model.logits(hidden, pass), -1).cpu();
}

// Sum over n of KL(right || other) of the kept tokens and one for all others.
double divergence(const at::Tensor& right, const at::Tensor& other) {
  const at::Tensor p = right.to(at::kDouble), q = other.to(at::kDouble);
  const auto rest = [](const at::Tensor& kept) { return (1 - kept.exp().sum(-1)).clamp_min(1e-12); };
  const at::Tensor p_rest = rest(p), q_rest = rest(q);
  return ((p.exp() * (p - q)).sum(-1) + p_rest * (p_rest.log() - q_rest.log())).sum().item<double>();
}

GreedyPath path_of(const std::vector<std::int32_t>& prompt, const std::vector<std::int32_t>& completion) {
  GreedyPath out;
  out.prompt = static_cast<std::int64_t>(prompt.size());
  out.tokens.ids.assign(prompt.begin(), prompt.end());
  out.tokens.ids.insert(out.tokens.ids.end(), completion.begin(), completion.end());
  const auto count = static_cast<std::int64_t>(out.tokens.ids.size());
  for (std::int64_t i = 0; i < count; ++i) out.tokens.positions.push_back(i);
  out.tokens.segments.push_back({.begin = 0, .end = count});
  return out;
}

bool has_adapter(const model::CausalLm& model) {
  const auto linears = model.linears();
  return std::any_of(linears.begin(), linears.end(), [](const auto* one) { return one->lora.has_value(); });
}

// The most likely tokens, with the taken one first: when two are equal, topk may name another.
void keep_likeliest(const at::Tensor& logprobs, GreedyPath& path) {
  const std::int64_t kept = std::min(kKept, logprobs.size(1));
  // [n, 1]
  const at::Tensor completion = at::tensor(path.tokens.ids, at::kLong).slice(0, path.prompt).unsqueeze(1);
  at::Tensor without = logprobs.scatter(1, completion, -INFINITY);
  const at::Tensor others = std::get<1>(at::topk(without, kept - 1, 1));
  path.ids = at::cat({completion, others}, 1);
  path.logprobs = logprobs.gather(1, path.ids);
}

}  // namespace

std::vector<GreedyPath> greedy_paths(const model::CausalLm& model,
                                     const std::vector<std::vector<std::int32_t>>& prompts,
                                     const std::vector<std::int64_t>& stop_ids, std::int64_t max_new_tokens) {
  const at::NoGradGuard no_grad;
  rollout::GenerateOptions options;
  options.max_new_tokens = max_new_tokens;
  options.stop_ids = stop_ids;
  options.logprobs = false;
  const auto completions = rollout::generate(model, prompts, options);
  const bool adapter = has_adapter(model);
  std::vector<GreedyPath> out;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    GreedyPath path = path_of(prompts[i], completions[i].ids);
    keep_likeliest(logprobs_of(model, path, true), path);
    if (adapter) {
      const at::Tensor base = logprobs_of(model, path, false);
      path.kl_without = divergence(path.logprobs, base.gather(1, path.ids));
    }
    out.push_back(std::move(path));
  }
  return out;
}

MergedComparison compare_models(const model::CausalLm& other, const std::vector<GreedyPath>& paths) {
  const at::NoGradGuard no_grad;
  MergedComparison out;
  for (const GreedyPath& path : paths) {
    const at::Tensor logprobs = logprobs_of(other, path, true);
    const at::Tensor taken = path.ids.select(1, 0), most_likely = logprobs.argmax(1);
    const at::Tensor differs = most_likely.ne(taken);
    const auto count = differs.sum().item<std::int64_t>();
    out.prompts += 1;
    out.tokens += taken.size(0);
    out.same_tokens += taken.size(0) - count;
    out.kl += divergence(path.logprobs, logprobs.gather(1, path.ids));
    out.kl_without += path.kl_without;
    if (count == 0) {
      out.same += 1;
      continue;
    }
    const auto first = differs.to(at::kInt).argmax(0).item<std::int64_t>();
    const at::Tensor probabilities = path.logprobs[first].exp();
    const at::Tensor place = path.ids[first].eq(most_likely[first]);
    const double others = (probabilities * place).sum().item<double>();  // 0 when it is not one of the kept
    out.widest_gap = std::max(out.widest_gap, probabilities[0].item<double>() - others);
  }
  if (out.tokens > 0) {
    out.kl /= static_cast<double>(out.tokens);
    out.kl_without /= static_cast<double>(out.tokens);
  }
  return out;
}

base::Verdict merged_verdict(const MergedComparison& found, const std::string& what,
                             const std::string& narrow) {
  const double agreement =
      static_cast<double>(found.same_tokens) / static_cast<double>(std::max<std::int64_t>(found.tokens, 1));
  std::string evidence = "KL " + short_number(found.kl);
  if (found.kl_without > 0) evidence += " (" + short_number(found.kl_without) + " without the adapter)";
  evidence += ", most likely token equal at " + std::to_string(found.same_tokens) + " of " +
              std::to_string(found.tokens);
  const std::string count = std::to_string(found.same) + " of " + base::counted(found.prompts, "prompt");
  base::Verdict out = {
      .code = "CKPT-02", .part = "files", .what = what + " gives the same greedy tokens on " + count};
  out.evidence = evidence;
  if (found.same == found.prompts) return out;
  out.evidence += "; at the first different token, the two were at most " + percent(found.widest_gap) +
                  " of probability apart";
  const bool like = found.kl <= kMaxMergedKl && agreement >= kLeastAgreement;
  if (like && found.widest_gap <= kNearTie) {
    out.level = base::Level::kNote;
    out.cause = "rounding decides near ties, and later tokens depend on them";
    return out;
  }
  const bool finite = std::isfinite(found.kl);
  const bool lost = narrow.empty() && found.kl_without > kMaxMergedKl && found.kl > found.kl_without / 2;
  out.level = lost || !finite ? base::Level::kFail : base::Level::kWarn;
  if (!finite) {
    out.cause = "suspected: numbers beyond the range of the stored type (float16 ends at 65504)";
    out.fix = "a base, or an --outtype, of bfloat16 or float32";
    out.cost = "a model whose outputs are not numbers";
  } else if (lost) {
    out.cause =
        "suspected: another base, or other options of it (dtype, load_in_4bit), than the adapter was "
        "trained on";
    out.fix = "name the base and its options as in the run's plan.yaml";
    out.cost = "most of the training is missing in the written model";
  } else if (!narrow.empty()) {
    out.cause = "the " + narrow + " weights of the file are too inexact";
    out.fix = narrow == "Q8_0" ? "a wider type: --outtype f16" : "a wider type: --outtype q8_0, or f16";
    out.cost = "text that differs from the trained model's";
  } else {
    out.cause =
        "suspected: rounding of the merged weights, which have fewer bits in the stored type than in "
        "the run";
    out.fix = "keep the unmerged adapter on its base, or store more bits (bf16 holds 8, f16 11)";
    out.cost = "text that differs from the trained model's";
  }
  return out;
}

}  // namespace hone::doctor
