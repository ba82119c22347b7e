// Every option for rows says for which forms of rows it is.
#include <gtest/gtest.h>

#include "config/methods.h"
#include "config/write_plan.h"
#include "helpers.h"

namespace hone::config {
namespace row_forms_test {

constexpr std::array kMethods = {Method::kSft,       Method::kGrpo,   Method::kRloo, Method::kDpo,
                                 Method::kOnlineDpo, Method::kReward, Method::kKto,  Method::kCpo,
                                 Method::kOrpo,      Method::kDistill};

TEST(RowForms, EachOptionOfTheDataSaysForWhichRowsItIs) {
  for (const Method method : kMethods) {
    for (const Option& option : method_schema(method).options) {
      // python stands in this group beside row_function; it also runs rewards, loggers and the hub.
      const bool for_rows =
          (option.group == "data" && option.name != "python") || option.name.starts_with("chat_template");
      EXPECT_FALSE(for_rows && option.row_forms.empty()) << method_name(method) << " " << option.name;
    }
  }
}

TEST(RowForms, AreWordsThatTheRowsHave) {
  for (const Method method : kMethods) {
    for (const Option& option : method_schema(method).options) {
      if (option.row_forms == kAnyRows || option.row_forms == kMappedRows) continue;
      for (const std::string& form : split_words(option.row_forms))
        EXPECT_TRUE(contains_word(kRowForms, form)) << option.name << " " << form;
    }
  }
}

TEST(RowForms, OnlyWhatWasSetIsHeldAgainstTheRows) {
  const auto names = [](const std::string& yaml) {
    Settings settings(method_schema(Method::kSft));
    settings.read_yaml_text(yaml, "run.yaml");
    std::vector<std::string> out;
    for (const RowOption& one : settings.of_some_rows()) out.push_back(one.name);
    return out;
  };
  EXPECT_TRUE(names("max_length: 8\n").empty());
  EXPECT_TRUE(names("completion_only_loss: false\ndataset_text_field: text\n").empty());
  EXPECT_EQ(names("completion_only_loss: true\ndataset_text_field: body\nassistant_only_loss: true\n").size(),
            3U);
}

}  // namespace row_forms_test
}  // namespace hone::config
