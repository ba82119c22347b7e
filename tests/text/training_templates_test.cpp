// What needs no fetched template; the real ones are in real_templates_test.cpp and real_tokenizers_test.cpp.
#include "text/training_template.h"

#include <gtest/gtest.h>

namespace hone::text {
namespace training_templates_test {

TEST(TrainingTemplates, EditsAreMadeAtTheirPlaces) {
  EXPECT_EQ(with_edits("abcdef", {}), "abcdef");
  EXPECT_EQ(with_edits("abcdef", {{0, 0, "<"}, {1, 2, ""}, {4, 1, "E"}, {6, 0, ">"}}), "<adEf>");
}

TEST(TrainingTemplates, OnlyTheExactTextOfAKnownTemplateHasOne) {
  EXPECT_FALSE(training_template("").has_value());
  EXPECT_FALSE(
      training_template("{% for message in messages %}{{ message.content }}{% endfor %}").has_value());
  // The size of Llama 3's, and another text.
  EXPECT_FALSE(training_template(std::string(389, 'x')).has_value());
}

TEST(TrainingTemplates, FamiliesAreNamedOnce) {
  EXPECT_EQ(
      training_families(),
      "Qwen2.5, Qwen3, Qwen3-Instruct-2507, Qwen3.5, Qwen3.5 without thinking, Qwen3.6, Qwen3.8, Llama 3, "
      "DeepSeek-R1-Distill, Phi-3, Phi-3.5, Gemma, Gemma 3, LFM2, LFM2-v2");
}

}  // namespace training_templates_test
}  // namespace hone::text
