#include "rollout/dialogue.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"
#include "rollout/generate.h"

namespace hone::rollout {
namespace dialogue_test {

using namespace hone::test_tools;
using Ids = std::vector<std::int32_t>;

class DialogueTest : public ::testing::Test {
 protected:
  static model::CausalLm tiny() {
    const TempFolder folder;
    write_model(folder.path(), tiny_config("llama"));
    return model::CausalLm(*model::open_weights(folder.path()), {});
  }

  // The answer that needs no memory of the turns before.
  Ids alone(const Ids& prompt) const { return Dialogue(model_).answer(prompt, 0, options_, {}).ids; }

  static Ids joined(Ids first, const Ids& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  const model::CausalLm model_ = tiny();
  static GenerateOptions greedy() {
    GenerateOptions out;
    out.max_new_tokens = 8;
    return out;
  }
  GenerateOptions options_ = greedy();
};

TEST_F(DialogueTest, AnswersAsGenerateDoes) {
  const Ids prompt = {3, 4, 5};
  EXPECT_EQ(alone(prompt), generate(model_, {prompt}, options_)[0].ids);
}

TEST_F(DialogueTest, ComputesOnlyWhatIsNew) {
  Dialogue dialogue(model_);
  const Ids first = {3, 4, 5};
  const Ids answer = dialogue.answer(first, 0, options_, {}).ids;
  EXPECT_EQ(dialogue.reused(), 0);
  const Ids second = joined(joined(first, answer), {9, 10, 11});
  EXPECT_EQ(dialogue.answer(second, 0, options_, {}).ids, alone(second));
  EXPECT_EQ(dialogue.reused(), 10);  // the last token of an answer has not been read
  // A template that writes the answer otherwise: only what comes before is kept.
  Ids other = second;
  other[5] = other[5] == 20 ? 21 : 20;
  EXPECT_EQ(dialogue.answer(other, 0, options_, {}).ids, alone(other));
  EXPECT_EQ(dialogue.reused(), 5);
  // A prompt that is all there is read from its last token on.
  const Ids shorter(other.begin(), other.begin() + 7);
  EXPECT_EQ(dialogue.answer(shorter, 0, options_, {}).ids, alone(shorter));
  EXPECT_EQ(dialogue.reused(), 6);
  dialogue.reset();
  EXPECT_EQ(dialogue.answer(second, 0, options_, {}).ids, alone(second));
  EXPECT_EQ(dialogue.reused(), 0);
}

TEST_F(DialogueTest, StopsWhenAskedAndGoesOn) {
  Dialogue dialogue(model_);
  const Ids prompt = {3, 4, 5};
  const Ids whole = alone(prompt);
  const Completion cut =
      dialogue.answer(prompt, 0, options_, [](std::span<const std::int32_t> ids) { return ids.size() < 3; });
  EXPECT_EQ(cut.ids, Ids(whole.begin(), whole.begin() + 3));
  EXPECT_EQ(cut.finish_reason, FinishReason::kCancelled);
  const Ids second = joined(joined(prompt, cut.ids), {7});
  EXPECT_EQ(dialogue.answer(second, 0, options_, {}).ids, alone(second));
  EXPECT_EQ(dialogue.reused(), 5);
}

TEST_F(DialogueTest, TellsEachToken) {
  std::vector<Ids> told;
  const Completion completion =
      Dialogue(model_).answer(Ids{3, 4}, 0, options_, [&](std::span<const std::int32_t> ids) {
        told.emplace_back(ids.begin(), ids.end());
        return true;
      });
  ASSERT_EQ(told.size(), 8U);
  EXPECT_EQ(told.back(), completion.ids);
  EXPECT_EQ(completion.finish_reason, FinishReason::kLength);
}

TEST_F(DialogueTest, TurnsHaveTheirOwnRandomness) {
  options_.sampler.temperature = 1.5;
  Dialogue dialogue(model_);
  const Ids prompt = {3, 4, 5};
  const Ids first = dialogue.answer(prompt, 0, options_, {}).ids;
  EXPECT_NE(dialogue.answer(prompt, 1, options_, {}).ids, first);
  EXPECT_EQ(dialogue.answer(prompt, 0, options_, {}).ids, first);
}

TEST_F(DialogueTest, ARefusedPromptChangesNothing) {
  Dialogue dialogue(model_);
  const Ids prompt = {3, 4, 5};
  dialogue.answer(prompt, 0, options_, {});
  EXPECT_SAYS(user_error([&] { dialogue.answer(Ids{3, 4, 99}, 0, options_, {}); }), "ids from 0 to 47");
  EXPECT_SAYS(user_error([&] { dialogue.answer(Ids{}, 0, options_, {}); }), "[the conversation]");
  EXPECT_EQ(dialogue.answer(prompt, 0, options_, {}).ids, alone(prompt));
  EXPECT_EQ(dialogue.reused(), 2);
}

TEST_F(DialogueTest, AfterAnExceptionItComputesEverythingAgain) {
  Dialogue dialogue(model_);
  const Ids prompt = {3, 4, 5};
  dialogue.answer(prompt, 0, options_, {});
  const auto fails = [](std::span<const std::int32_t>) -> bool { throw std::runtime_error("gone"); };
  EXPECT_THROW(dialogue.answer(prompt, 0, options_, fails), std::runtime_error);
  EXPECT_EQ(dialogue.answer(prompt, 0, options_, {}).ids, alone(prompt));
  EXPECT_EQ(dialogue.reused(), 0);
}

}  // namespace dialogue_test
}  // namespace hone::rollout
