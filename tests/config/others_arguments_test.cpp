// Scripts that are read with the arguments of their command line: `hone check train.py -- --model M`.
#include "config/commands/doctor_plan.h"
#include "config/helpers.h"
#include "config/others_helpers.h"

namespace hone::config {
namespace others_arguments_test {

using Words = std::vector<std::string>;

OtherRun script(const std::string& text, const Words& words) {
  return other_run(text, "train.py", {.script_arguments = words});
}

const std::string kTrain = R"py(
trainer = SFTTrainer(model=args.model, args=SFTConfig(output_dir="out", learning_rate=args.lr, packing=args.pack),
                     train_dataset=load_dataset(args.data, split="train"))
trainer.train()
)py";
const std::string kArgparse = R"py(import argparse
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("--model", required=True)
parser.add_argument("--lr", type=float, default=1e-4)
parser.add_argument("--pack", action="store_true")
args = parser.parse_args()
)py" + kTrain;

TEST(OthersArguments, OfArgparse) {
  expect_run(script(kArgparse, {"nowhere/rows", "--model", "nowhere/model", "--lr=3e-5", "--pack"}),
             {.method = "sft",
              .options = {{"model_name_or_path", "nowhere/model"},
                          {"learning_rate", "3e-05"},
                          {"packing", "true"},
                          {"dataset_name", "nowhere/rows"}},
              .unknown = 0});
  const OtherRun without = script(kArgparse, {});
  EXPECT_EQ(option_of(without, "model_name_or_path"), "absent");
  EXPECT_EQ(option_of(without, "learning_rate"), "0.0001");
  expect_finding(without, "the command line may set other values");
}

TEST(OthersArguments, WordsThatTheParserDoesNotHaveMakeItsValuesUnknown) {
  const OtherRun run = script(kArgparse, {"nowhere/rows", "--model", "m", "--rate", "1"});
  EXPECT_EQ(option_of(run, "learning_rate"), "absent");
  expect_finding(run, "the arguments behind -- are not those of the parser in line 9");
}

TEST(OthersArguments, OfTrlsThreeClasses) {
  const std::string text = R"py(from datasets import load_dataset
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser
parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
script_args, training_args, model_args = parser.parse_args_and_config()
dataset = load_dataset(script_args.dataset_name)
trainer = SFTTrainer(model=model_args.model_name_or_path, args=training_args,
                     train_dataset=dataset[script_args.dataset_train_split])
trainer.train()
)py";
  expect_run(script(text, {"--model_name_or_path", "nowhere/model", "--dataset_name", "nowhere/rows",
                           "--learning_rate", "3e-5", "--packing", "--max_length", "512"}),
             {.method = "sft",
              .options = {{"model_name_or_path", "nowhere/model"},
                          {"learning_rate", "3e-05"},
                          {"packing", "true"},
                          {"max_length", "512"}},
              .unknown = 0});
}

TEST(OthersArguments, OfSysArgv) {
  const std::string text =
      "import sys\nfrom trl import SFTConfig, SFTTrainer\n"
      "SFTTrainer(model=sys.argv[1], args=SFTConfig(output_dir=\"out\"), train_dataset=None).train()\n";
  EXPECT_EQ(option_of(script(text, {"nowhere/model"}), "model_name_or_path"), "nowhere/model");
  EXPECT_EQ(option_of(script(text, {}), "model_name_or_path"), "absent");
}

TEST(OthersArguments, WordsThatNothingReadsAreTold) {
  const std::string text =
      "from trl import SFTConfig, SFTTrainer\n"
      "SFTTrainer(model=\"m\", args=SFTConfig(output_dir=\"out\"), train_dataset=None).train()\n";
  expect_finding(script(text, {"--model", "x"}), "nothing in the file reads the arguments behind --");
}

using OthersArgumentsOfCommand = ConfigTest;

TEST_F(OthersArgumentsOfCommand, AScriptHasThemWithoutRun) {
  const std::string file = write("train.py", "x = 1\n");
  EXPECT_EQ(parse_check({file, "--", "--model", "m"}).script_arguments, (Words{"--model", "m"}));
}

}  // namespace others_arguments_test
}  // namespace hone::config
