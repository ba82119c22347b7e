// Two answers with mathematics, compared: the first line is the right one.
#include "fuzz/targets/target.h"
#include "rewards/math/accuracy_reward.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view text) {
    const auto [gold, completion] = fuzz::first_line(text);
    rewards::judge_accuracy(std::string(gold), std::string(completion));
    rewards::judge_accuracy(std::string(gold), std::string(completion), true,
                            rewards::AccuracyRules::kOpenR1);
  });
}
