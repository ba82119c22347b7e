// Options and columns that do nothing for the rows of a run are named.
#include "train/notes/row_notes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/option_table.h"
#include "config/write_plan.h"

namespace hone::train {
namespace row_notes_test {

using config::Method;

bool names(const std::vector<std::string>& notes, std::string_view word) {
  return std::any_of(notes.begin(), notes.end(),
                     [word](const std::string& note) { return note.find(word) != std::string::npos; });
}

// Of each method the forms that its rows may have.
std::vector<std::vector<std::string>> forms_of(Method method) {
  if (method == Method::kSft)
    return {{"text"},   {"strings"},          {"messages"},         {"turns"},
            {"tokens"}, {"tokens", "masked"}, {"tokens", "labeled"}};
  if (method == Method::kReward) return {{"strings"}, {"turns"}, {"tokens"}};
  return {{"strings"}, {"turns"}};
}

TEST(RowNotes, NoOptionIsSilentForRowsThatItIsNotFor) {
  int told = 0;
  for (const Method method : {Method::kSft, Method::kDpo, Method::kKto, Method::kReward, Method::kCpo,
                              Method::kOrpo, Method::kGrpo, Method::kRloo, Method::kOnlineDpo}) {
    config::Plan plan;
    plan.method = method;
    for (const config::Option& option : config::method_schema(method).options) {
      const bool some = !option.row_forms.empty() && option.row_forms != config::kAnyRows;
      if (!some || option.row_forms == config::kMappedRows) continue;
      plan.row_options.push_back({.name = std::string(option.name), .forms = std::string(option.row_forms)});
    }
    for (const std::vector<std::string>& forms : forms_of(method)) {
      const std::vector<std::string> notes =
          notes_of_rows(plan, {}, {.columns = columns_of(method), .forms = forms});
      for (const config::RowOption& option : plan.row_options) {
        const bool used = std::any_of(forms.begin(), forms.end(), [&option](const std::string& form) {
          return config::contains_word(option.forms, form);
        });
        EXPECT_NE(names(notes, option.name + ": not used for the rows"), used)
            << option.name << " " << forms.front();
        told += used ? 0 : 1;
      }
    }
  }
  EXPECT_GT(told, 20);
}

TEST(RowNotes, AnOptionThatChangedNoRowIsNamed) {
  config::Plan plan;
  plan.train_rows.mapping = {
      .format = base::RowFormat::kOpenAi, .conversation = true, .system_prompt = "Be brief."};
  const RowReading reading = {.columns = columns_of(Method::kSft), .forms = {"messages"}};
  const std::vector<std::string> idle = notes_of_rows(plan, {}, reading);
  for (const char* option : {"row_format", "make_conversation", "dataset_system_prompt"})
    EXPECT_TRUE(names(idle, option)) << option;
  data::SeenRows seen;
  seen.effects = {.format = true, .conversation = true, .system_prompt = true};
  EXPECT_TRUE(notes_of_rows(plan, seen, reading).empty());
}

TEST(RowNotes, APromptMadeOfAnotherColumnIsTold) {
  config::Plan plan;
  plan.method = Method::kGrpo;
  plan.rows_without_prompt = "problem_r1";
  const data::SeenRows problems = {.columns = {"problem", "solution"}};
  EXPECT_TRUE(names(notes_of_rows(plan, problems, prompt_reading(true)), "DeepSeek-R1's system turn"));
  EXPECT_TRUE(notes_of_rows(plan, {.columns = {"prompt", "problem"}}, prompt_reading(true)).empty());
  plan.system_prompt = "Be brief.";
  const std::vector<std::string> notes = notes_of_rows(plan, problems, prompt_reading(true));
  EXPECT_TRUE(names(notes, "their problem becomes the user's turn") && !names(notes, "DeepSeek"));
  plan.rows_without_prompt = "refuse";
  EXPECT_TRUE(notes_of_rows(plan, problems, prompt_reading(true)).empty());
}

TEST(RowNotes, ColumnsOfAnotherFormAreNotRead) {
  config::Plan plan;
  plan.dataset_text_field = "body";
  data::SeenRows seen;
  seen.columns = {"body", "labels", "tools", "source", "attention_mask"};
  const auto notes = notes_of_rows(plan, seen, {.columns = columns_of(Method::kSft), .forms = {"text"}});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0], "columns are not read: labels, tools, source");
  EXPECT_TRUE(
      notes_of_rows(plan, seen,
                    {.columns = columns_of(Method::kGrpo), .forms = {"strings"}, .names_unread = false})
          .empty());
}

TEST(RowNotes, ReadingsOfCsvAreToldOfColumnsThatAreRead) {
  config::Plan plan;
  data::SeenRows seen;
  seen.columns = {"prompt", "answer", "id"};
  seen.readings = {{.column = "answer", .text = "007", .value = 7, .line = 2},
                   {.column = "id", .text = "01", .value = 1, .line = 2}};
  const auto of_rewards = notes_of_rows(
      plan, seen, {.columns = columns_of(Method::kGrpo), .forms = {"strings"}, .names_unread = false});
  ASSERT_EQ(of_rewards.size(), 1U);
  EXPECT_NE(of_rewards[0].find("column answer, the text '007' is read as the number 7"), std::string::npos);
  plan.train_rows.mapping.prompt_template = "{answer}";
  const auto of_template =
      notes_of_rows(plan, seen, {.columns = columns_of(Method::kSft), .forms = {"strings"}});
  EXPECT_TRUE(names(of_template, "column answer"));
  EXPECT_FALSE(names(of_template, "column id,"));
}

TEST(RowNotes, WhatTrlDoesNotApplyOfTokenizedRows) {
  config::Plan plan;
  data::DataFacts facts;
  facts.form = data::RowForm::kTokens;
  facts.token_columns.completion_mask = true;
  EXPECT_TRUE(names(record_notes(plan, {}, facts), "completion_mask: not used"));
  plan.completion_only_loss = true;
  EXPECT_FALSE(names(record_notes(plan, {}, facts), "completion_mask: not used"));
  facts.token_columns.labels = true;
  EXPECT_TRUE(names(record_notes(plan, {}, facts), "since the rows have labels"));
  facts.rows_with_shifted_labels = 2;
  EXPECT_TRUE(names(record_notes(plan, {}, facts), "shifted by one"));
}

}  // namespace row_notes_test
}  // namespace hone::train
