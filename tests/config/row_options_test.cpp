// The options that say what rows become.
#include "config/datasets/row_options.h"

#include "config/helpers.h"
#include "config/write_plan.h"

namespace hone::config {
namespace row_options_test {

class RowOptions : public ConfigTest {
 protected:
  static bool has_note(const Plan& plan, const std::string& begin) {
    return std::any_of(plan.notes.begin(), plan.notes.end(),
                       [&](const std::string& note) { return note.starts_with(begin); });
  }
};

TEST_F(RowOptions, AreTheRowsOfTrainingAndEvaluation) {
  const Plan plan = run_yaml(
      "dataset_columns: {question: prompt, answer: completion}\nrow_format: openai\n"
      "make_conversation: true\ndataset_system_prompt: Be brief.\n");
  base::RowMapping expected;
  expected.columns = {{"question", "prompt"}, {"answer", "completion"}};
  expected.format = base::RowFormat::kOpenAi;
  expected.conversation = true;
  expected.system_prompt = "Be brief.";
  EXPECT_EQ(plan.train_rows.mapping, expected);
  EXPECT_EQ(plan.eval_rows.mapping, expected);
  EXPECT_TRUE(has_note(plan, "dataset_columns: question is read as prompt, answer is read as completion"));
  EXPECT_TRUE(has_note(plan, "row_format: openai"));
  EXPECT_TRUE(has_note(plan, "make_conversation"));
  EXPECT_TRUE(has_note(plan, "dataset_system_prompt"));
  EXPECT_EQ(parse_run_text(Method::kSft, write_plan(plan), "plan.yaml"), plan);
  EXPECT_TRUE(run().train_rows.mapping.empty());
  EXPECT_TRUE(run().notes.empty());
}

TEST_F(RowOptions, TemplatesAndFunctions) {
  const std::string file = write("map.py", "def row(row): return row\n");
  const Plan plan =
      run_yaml("prompt_template: \"Q: {q}\\nA:\"\nrow_function: " + file + ":row\nrow_timeout: 5\n");
  EXPECT_EQ(plan.train_rows.mapping.prompt_template, "Q: {q}\nA:");
  EXPECT_EQ(plan.train_rows.mapping.function, (base::RowFunctionPlan{.word = file + ":row", .seconds = 5}));
  const Plan text = run_yaml("text_template: \"{q} {a}\"\ndataset_text_field: body\n");
  EXPECT_EQ(text.train_rows.mapping.text_field, "body");
  const Plan pairs = dpo({"--row_format", "sharegpt"});
  EXPECT_EQ(pairs.train_rows.mapping.format, base::RowFormat::kShareGpt);
}

TEST_F(RowOptions, Mistakes) {
  const auto says = [&](const std::string& yaml, const std::string& text) {
    const std::string error = yaml_error(yaml);
    EXPECT_NE(error.find("[run.yaml:4]"), std::string::npos) << error;
    EXPECT_NE(error.find(text), std::string::npos) << error;
  };
  says("dataset_columns: {a: b, c: b}\n", "a and c are both named b");
  says("dataset_columns: {a: 3}\n", "a name for the column a");
  says("prompt_template: \"Q: {q\"\n", "a '{' that is not closed");
  says("prompt_template: \"Q: }\"\n", "a single '}' at character 4");
  says("prompt_template: \"Q\"\n", "no column in it");
  says("text_template: \"{a}\"\nprompt_template: \"{a}\"\n", "prompt_template or text_template, not both");
  says("text_template: \"{a}\"\nmake_conversation: true\n", "rows of text, or conversations");
  says("row_function: absent.py:row\n", "absent.py' does not exist");
  says("row_function: map.py\n", "path/to/file.py:function in row_function");
  says("row_format: alpacca\n", "Did you mean 'alpaca'?");
}

}  // namespace row_options_test
}  // namespace hone::config
