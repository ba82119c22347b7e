#include "config/option_table.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "config/helpers.h"

namespace hone::config {
namespace {

using base::Json;

Json recorded() {
  static const std::string file = std::string(HONE_FIXTURES) + "/config/trl_sft_options.json";
  return base::parse_json(base::read_text(file), file);
}

TEST(OptionTable, HasEveryOptionOfTrlWithItsDefaultAndOrigin) {
  const Json trl = recorded();
  EXPECT_EQ(trl["versions"]["trl"], "1.16.0");
  EXPECT_EQ(trl["versions"]["transformers"], "5.23.0");
  ASSERT_EQ(trl["options"].size(), 163U);
  for (const auto& [name, fact] : trl["options"].items()) {
    const Option* row = sft_schema().find(name);
    ASSERT_NE(row, nullptr) << name << " has no row";
    EXPECT_EQ(row->default_value(), fact["default"]) << name;
    EXPECT_EQ(origin_word(row->origin), fact["class"].get<std::string>()) << name;
  }
}

// Adding an option is an event: our own are named here.
TEST(OptionTable, HasNothingElseButOurOwn) {
  std::vector<std::string> own;
  const Json trl = recorded();
  for (const Option& row : sft_schema().options) {
    if (!trl["options"].contains(row.name)) own.emplace_back(row.name);
  }
  EXPECT_EQ(own,
            (std::vector<std::string>{"init_lora_weights", "lora_exclude_modules", "adapter_name_or_path",
                                      "base_model_name_for_adapter", "eval_dataset", "threads", "recompute",
                                      "layer_form", "memory_limit", "env", "accelerate_config"}));
}

TEST(OptionTable, TypesFollowTrl) {
  const Json trl = recorded();
  for (const auto& [name, fact] : trl["options"].items()) {
    const Option& row = *sft_schema().find(name);
    const std::string type = fact["type"];
    if (type.starts_with("bool")) {
      EXPECT_EQ(row.kind, Kind::kBool) << name;
    }
    if (type == "int" || type == "int | None") {
      EXPECT_EQ(row.kind, Kind::kInt) << name;
    }
    if (type.starts_with("float")) {
      EXPECT_EQ(row.kind, Kind::kFloat) << name;
    }
    if (type.starts_with("list[str]")) {
      EXPECT_EQ(row.kind, Kind::kList) << name;
    }
    if (type.ends_with("| None") && row.kind != Kind::kChoice) {
      EXPECT_TRUE(row.nullable()) << name;
    }
  }
}

TEST(OptionTable, EveryRowIsWhole) {
  for (const Schema* schema :
       {&sft_schema(), &generate_schema(), &chat_schema(), &convert_schema(), &merge_schema()}) {
    std::set<std::string_view> seen;
    for (const Option& row : schema->options) {
      EXPECT_TRUE(seen.insert(row.name).second) << row.name << " twice";
      EXPECT_FALSE(row.meaning.empty()) << row.name;
      EXPECT_FALSE(row.group.empty()) << row.name;
      EXPECT_FALSE(row.default_value().is_discarded()) << row.name;
      EXPECT_EQ(find_former_name(row.name), nullptr) << row.name << " is both an option and a former name";
      if (row.answer != Class::kSupported || !row.not_yet.empty()) {
        EXPECT_FALSE(row.reason.empty()) << row.name << " does not say why";
      }
      if (row.kind == Kind::kChoice) {
        const std::vector<std::string> values = split_words(row.values);
        EXPECT_NE(std::find(values.begin(), values.end(), row.default_value().get<std::string>()),
                  values.end())
            << row.name << ": the default is not among the values";
      }
      if (row.default_value().is_number()) {
        EXPECT_TRUE(row.range.holds(row.default_value().get<double>()))
            << row.name << ": the default is out of range";
      }
    }
  }
}

TEST(OptionTable, RangesSayTheirBounds) {
  EXPECT_EQ(at_least(1).words(), "at least 1");
  EXPECT_EQ(above(0).words(), "above 0");
  EXPECT_EQ(share().words(), "from 0 to below 1");
  EXPECT_EQ(Range{}.words(), "");
  EXPECT_TRUE(share().holds(0));
  EXPECT_FALSE(share().holds(1));
  EXPECT_FALSE(above(0).holds(0));
}

TEST(OptionTable, KnowsWhoseOptionAnotherMethodsIs) {
  EXPECT_EQ(other_methods("num_generations"), "grpo, rloo");
  EXPECT_EQ(other_methods("packing"), "");
  for (const Option& row : sft_schema().options) EXPECT_EQ(other_methods(row.name), "") << row.name;
}

}  // namespace
}  // namespace hone::config
