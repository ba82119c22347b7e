#include "config/commands/help.h"

#include <algorithm>

#include "base/json.h"
#include "config/helpers.h"
#include "config/write_plan.h"

namespace hone::config {
namespace help_test {

TEST(Help, EveryOptionIsInItsCommandsHelp) {
  for (const Schema* schema : all_schemas()) {
    const std::string text = command_help(*find_command(schema->command));
    for (const std::string& name : schema->names()) EXPECT_NE(text.find(name), std::string::npos) << name;
    EXPECT_NE(text.find("usage: hone " + schema->command), std::string::npos);
  }
}

TEST(Help, ALineHoldsNameTypeMeaningAndDefault) {
  EXPECT_NE(command_help(*find_command("sft"))
                .find("  --lora_r int                           rank of the adapter  [16]\n"),
            std::string::npos);
}

TEST(Help, ProgramHelpNamesTheCommands) {
  for (const char* command : {"sft", "grpo", "rloo", "reward-test", "generate", "convert", "merge", "export",
                              "doctor", "faults", "options", "env"}) {
    EXPECT_NE(program_help().find(command), std::string::npos) << command;
  }
}

TEST(Options, OneOption) {
  EXPECT_EQ(run_options({"load_in_4bit"}),
            "load_in_4bit: store the layers' linears in 4 bits per weight (QLoRA), as bitsandbytes does; the "
            "adapter stays float32\n"
            "  type      bool\n"
            "  default   false\n"
            "  class     supported\n"
            "  from      ModelConfig\n");
  EXPECT_EQ(run_options({"--lora-dropout"}), run_options({"lora_dropout"}));
  EXPECT_NE(run_options({"--method", "generate", "top_p"}).find("range     above 0 to 1"), std::string::npos);
}

TEST(Options, JsonIsTheWholeTable) {
  const base::Json rows = base::Json::parse(run_options({"--json"}));
  ASSERT_EQ(rows.size(), method_schema(Method::kSft).options.size());
  EXPECT_EQ(rows[0]["name"], "model_name_or_path");
  const base::Json one = base::Json::parse(run_options({"--json", "optim"}));
  EXPECT_EQ(one["same_values"], base::Json({"adamw_torch"}));
  EXPECT_EQ(one["class"], "supported");
}

TEST(Options, ACommandMayStandFirst) {
  EXPECT_EQ(run_options({"grpo"}), run_options({"--method", "grpo"}));
  EXPECT_EQ(run_options({"rloo", "beta"}),
            "beta: weight of the KL to the reference; 0: it is not computed\n  type      float\n  default   "
            "0.05\n  range     at least 0\n  class     supported\n  from      RLOOConfig\n");
}

TEST(Options, TextHasALineAnOption) {
  const std::string text = run_options({});
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            method_schema(Method::kSft).options.size());
}

TEST(Options, FormerNamesAreAListOfTheirOwn) {
  const base::Json names = base::Json::parse(run_options({"sft", "--former", "--json"}));
  const auto row = [&](const char* name) {
    const auto at =
        std::find_if(names.begin(), names.end(), [&](const base::Json& one) { return one["name"] == name; });
    return at == names.end() ? base::Json() : *at;
  };
  EXPECT_EQ(row("max_seq_length")["option"], "max_length");
  EXPECT_TRUE(row("rpo_alpha").is_null()) << "of dpo";
  EXPECT_NE(run_options({"dpo", "--former"}).find("rpo_alpha"), std::string::npos);
}

TEST(Options, Mistakes) {
  EXPECT_EQ(error_of([] { run_options({"packng"}); }),
            "[hone options] expected an option of hone sft\n  found:  unknown option packng. Did you mean "
            "'packing'?\n  likely: it would be ignored silently (RL-16)\n  do:  "
            "   `hone options --method sft` lists every option");
  const std::string unknown = error_of([] { run_options({"--method", "sfd"}); });
  for (const Schema* schema : all_schemas()) EXPECT_NE(unknown.find(schema->command), std::string::npos);
  EXPECT_TRUE(unknown.starts_with("[hone options --method] expected one of sft, grpo")) << unknown;
  EXPECT_TRUE(unknown.ends_with("found:  'sfd'. Did you mean 'sft'?")) << unknown;
  EXPECT_NE(error_of([] { run_options({"--jsn"}); }).find("Did you mean '--json'?"), std::string::npos);
}

}  // namespace help_test
}  // namespace hone::config
