#include "train/steps/rehearsal_rollouts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "rollout/generate.h"

namespace hone::train {

namespace {

constexpr std::int64_t kNewTokens = 8;  // each reads all weights, and an examination rehearses seven times
constexpr std::uint64_t kRehearsalStep = 0xFFFFFFF0;  // randomness apart from every training batch's

}  // namespace

RolloutBatch rehearsal_rollouts(const model::CausalLm& model, const RolloutPrompt& whole,
                                rollout::GenerateOptions options, const RehearsalRequest& request) {
  RolloutPrompt prompt = whole;
  const std::int64_t room =
      std::max<std::int64_t>(8, request.max_tokens - kRehearsedCompletions * kNewTokens);
  if (static_cast<std::int64_t>(prompt.ids.size()) > room) {
    prompt.ids.erase(prompt.ids.begin(), prompt.ids.end() - static_cast<std::ptrdiff_t>(room));
  }
  options.samples = kRehearsedCompletions;
  options.max_new_tokens = std::min(options.max_new_tokens, kNewTokens);
  options.min_new_tokens = std::min<std::int64_t>(2, options.max_new_tokens);
  options.step = kRehearsalStep + static_cast<std::uint64_t>(request.index % 8);
  options.stops = {};
  RolloutBatch out{.prompts = {prompt}};
  for (const rollout::Completion& one : rollout::generate(model, {prompt.ids}, options)) {
    out.samples.push_back({.prompt = 0, .ids = one.ids, .old_logprobs = one.logprobs});
  }
  return out;
}

double largest_difference(const at::Tensor& logprob, const RolloutBatch& batch,
                          const std::vector<std::size_t>& samples) {
  const at::Tensor found = logprob.cpu().contiguous();
  const float* at_token = found.const_data_ptr<float>();
  double out = 0;
  for (const std::size_t i : samples) {
    for (const float recorded : batch.samples[i].old_logprobs) {
      out = std::max(out, static_cast<double>(std::fabs(recorded - *at_token)));
      ++at_token;
    }
  }
  return out;
}

}  // namespace hone::train
