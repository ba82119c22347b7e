// What a plan and the tokenizer's template decide together.
#include "train/opening/open_model.h"

#include <gtest/gtest.h>

#include "base/files/file.h"

namespace hone::train {
namespace open_model_test {

OpenedText with_template(const std::string& source) {
  OpenedText out{.tokenizer = text::Tokenizer::from_folder(HONE_FIXTURES "/text/tiny"),
                 .chat_template = nullptr};
  out.tokenizer.set_chat_template(source);
  out.chat_template = std::make_unique<text::ChatTemplate>(source, out.tokenizer.special(), "test");
  return out;
}

constexpr const char* kPlain = "{% for m in messages %}{{ m.content }}{% endfor %}";

TEST(OpenTrainingTemplate, OnlyWhereTagsAreMissingAndAskedFor) {
  std::vector<std::string> notes;
  config::Plan plan;
  EXPECT_EQ(open_training_template(plan, with_template(kPlain), notes), nullptr);
  plan.assistant_only_loss = true;
  EXPECT_EQ(open_training_template(plan, with_template(kPlain), notes), nullptr)
      << "of no family that is known";
  const OpenedText tagged = with_template("{% generation %}{{ messages[0].content }}{% endgeneration %}");
  EXPECT_EQ(open_training_template(plan, tagged, notes), nullptr);
  EXPECT_TRUE(notes.empty());
}

TEST(OpenTrainingTemplate, MarksATemplateThatTrlKnows) {
  const base::fs::path file = base::fs::path(HONE_SOURCE_DIR) / "third_party/trl-templates/qwen3.jinja";
  if (!base::fs::exists(file)) GTEST_SKIP() << "tests/parity/fetch_tokenizers fetches " << file;
  config::Plan plan;
  plan.assistant_only_loss = true;
  std::vector<std::string> notes;
  const OpenedText opened = with_template(base::read_text(file));
  const auto training = open_training_template(plan, opened, notes);
  ASSERT_NE(training, nullptr);
  EXPECT_TRUE(training->has_generation_tag());
  EXPECT_FALSE(opened.chat_template->has_generation_tag());
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("TRL's training form of Qwen3's"), std::string::npos);
}

TEST(RowsFor, ASystemTurnWhereTheTemplateKnowsThem) {
  config::Plan plan;
  const auto turns = [&plan](const std::string& source) {
    return rows_for(with_template(source).tokenizer, plan, {}).empty_system_turn;
  };
  EXPECT_FALSE(turns("<|im_start|>"));
  plan.auto_insert_empty_system_msg = true;
  EXPECT_TRUE(turns("<|im_start|>"));
  EXPECT_FALSE(turns(kPlain));
}

}  // namespace open_model_test
}  // namespace hone::train
