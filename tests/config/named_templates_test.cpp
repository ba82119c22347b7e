// chat_template by name: the templates that a tokenizer's folder has.
#include "config/datasets/named_templates.h"

#include "config/helpers.h"

namespace hone::config {
namespace named_templates_test {

class NamedTemplates : public ConfigTest {
 protected:
  void SetUp() override {
    ConfigTest::SetUp();
    write("model/tokenizer_config.json",
          R"({"chat_template": [{"name": "default", "template": "{{ 1 }}"},
              {"name": "tool_use", "template": "{{ 2 }}"}, {"name": 7, "template": "x"}, "y"]})");
  }
};

TEST_F(NamedTemplates, AreThoseOfTheConfigurationAndTheFolder) {
  write("model/additional_chat_templates/rag.jinja", "{{ 3 }}");
  write("model/additional_chat_templates/notes.txt", "no template");
  const std::vector<NamedTemplate> found = named_templates(path("model"));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name, "default");
  EXPECT_EQ(found[1].name, "rag");
  EXPECT_EQ(found[1].source, "{{ 3 }}");
  EXPECT_EQ(found[2].source, "{{ 2 }}");
  EXPECT_TRUE(named_templates(path("rows")).empty());
}

TEST_F(NamedTemplates, ANameBecomesTheTemplatesText) {
  EXPECT_EQ(run({"--chat_template", "tool_use"}).chat_template, "{{ 2 }}");
  EXPECT_EQ(run({"--chat_template", "{{ messages }}"}).chat_template, "{{ messages }}");
}

TEST_F(NamedTemplates, AnotherNameIsAnErrorThatNamesThoseThere) {
  const std::string error = run_error({"--chat_template", "tool_us"});
  EXPECT_NE(error.find("the tokenizer has default, tool_use. Did you mean 'tool_use'?"), std::string::npos)
      << error;
  write("model/tokenizer_config.json", "{}");
  EXPECT_NE(run_error({"--chat_template", "chatml"}).find("no templates with names"), std::string::npos);
}

}  // namespace named_templates_test
}  // namespace hone::config
