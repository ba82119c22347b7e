// Policy gradients with a loss and a reward of one's own: own_loss MODEL PROMPT ADAPTER [STEPS]
// The reward is the share of tokens of a completion that are no repetition of an earlier one.
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <set>

#include "hone/adapter.h"
#include "hone/data.h"
#include "hone/engine.h"
#include "hone/error.h"
#include "hone/loss.h"
#include "hone/step.h"

namespace {

double reward_of(const std::vector<std::int32_t>& ids) {
  return static_cast<double>(std::set<std::int32_t>(ids.begin(), ids.end()).size()) /
         static_cast<double>(ids.size());
}

// REINFORCE that stays near the policy that sampled: -A l + beta / 2 (l - q)^2 of each token that was drawn.
hone::LossValue near_policy(std::span<const float> logprobs, const hone::Example& example) {
  constexpr double kBeta = 0.1;
  hone::LossValue out{.loss = 0, .d_logprob = std::vector<float>(logprobs.size())};
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    if (example.weights[i] == 0) continue;  // the prompt
    const double advantage = example.advantages[i], gap = logprobs[i] - example.logprobs[i];
    out.loss += -advantage * logprobs[i] + kBeta / 2 * gap * gap;
    out.d_logprob[i] = static_cast<float>(-advantage + kBeta * gap);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::cerr << "usage: own_loss MODEL PROMPT ADAPTER [STEPS]\n";
    return 2;
  }
  hone::Model model(argv[1]);
  hone::Adapter adapter(model, {.r = 8, .alpha = 16});
  hone::Step step(adapter);
  const std::vector<std::int32_t> prompt = model.encode(argv[2]);
  const int steps = argc > 4 ? std::atoi(argv[4]) : 20;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(steps); ++i) {
    std::vector<hone::Request> group;
    for (std::uint64_t k = 0; k < 8; ++k)
      group.push_back({.prompt = prompt, .max_new_tokens = 16, .temperature = 1, .seed = i, .sample = k});
    const std::vector<hone::Completion> drawn = hone::sample(model, group);
    double mean = 0;
    for (const hone::Completion& one : drawn) mean += reward_of(one.ids) / static_cast<double>(drawn.size());
    for (const hone::Completion& one : drawn) {
      hone::Example example = hone::make_example(prompt, one.ids);
      example.advantages.assign(example.targets.size(), static_cast<float>(reward_of(one.ids) - mean));
      example.logprobs.assign(prompt.size() - 1, 0);
      example.logprobs.insert(example.logprobs.end(), one.logprobs.begin(), one.logprobs.end());
      step.add(example, near_policy, 1.0 / static_cast<double>(drawn.size()));
    }
    std::cout << "step " << i + 1 << "  reward " << mean << "  gradient " << step.take(1e-3).grad_norm
              << '\n';
  }
  adapter.save(argv[3]);
  return 0;
} catch (const hone::UserError& error) {
  std::cerr << error.what() << '\n';
  return 2;
}
