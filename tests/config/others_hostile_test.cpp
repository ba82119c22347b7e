// What is no file of a trainer, what is broken, hone's own file of a run, and mutated files: a run or a
// sentence.
#include "config/helpers.h"
#include "config/others_helpers.h"
#include "fuzz/mutate.h"

namespace hone::config {
namespace others_hostile_test {

const std::string kAxolotl =
    "base_model: nowhere/model\nmicro_batch_size: 2\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n"
    "learning_rate: 1e-4\nval_set_size: 0.1\ndatasets:\n  - path: nowhere/rows\n    type: alpaca\n";
const std::string kFactory =
    "model_name_or_path: nowhere/model\nstage: dpo\nfinetuning_type: lora\ndataset: a,b\ntemplate: qwen\npref_loss: simpo\n";
const std::string kScript =
    "A=${B:-1}\nswift sft \\\n --model 'nowhere/model' --dataset \"x:y#5\" $(date) \\\n --max_length $A # end\n";

const std::string kTorchtune =
    "model:\n  _component_: torchtune.models.a.lora_a\n  lora_attn_modules: [q_proj]\ncheckpointer:\n  checkpoint_dir: "
    "${oc.env:NOBODY,m}/${output_dir}\noutput_dir: ${seed}\nseed: 1\nbatch_size: 1\nepochs: 1\noptimizer:\n  _component_: "
    "torch.optim.AdamW\n  lr: 1\ndataset:\n  _component_: torchtune.datasets.chat_dataset\n  source: a\n";

TEST(OthersHostile, OwnFilesAreNobodysElse) {
  EXPECT_FALSE(recognize("model_name_or_path: m\ndataset_name: d\nuse_peft: true\n", "run.yaml"));
  EXPECT_FALSE(recognize("base_model: m\n", "run.yaml"));
  EXPECT_FALSE(recognize("[1, 2]\n", "run.yaml"));
  EXPECT_FALSE(recognize("base_model: \"unbalanced\nmicro_batch_size: 1\n", "run.yaml"));
  EXPECT_FALSE(recognize("", "run.yaml"));
}

TEST(OthersHostile, BrokenTextIsSaidWithItsPlace) {
  const std::string text = "base_model: m\nmicro_batch_size: 1\nwandb_project: \"never closed\n";
  const std::string error =
      error_of([&] { read_other(text, {.path = "run.yaml"}, {Trainer::kAxolotl, "--as axolotl"}); });
  EXPECT_NE(error.find("run.yaml:3"), std::string::npos) << error;
  EXPECT_NE(error.find("unclosed quote"), std::string::npos) << error;
}

TEST(OthersHostile, AnotherWordThanATrainer) {
  EXPECT_FALSE(trainer_of_word("hone"));
  EXPECT_NE(error_of([] { trainer_of_word("axolot"); }).find("Did you mean 'axolotl'"), std::string::npos);
}

// The mistakes that hone's own reading finds carry the line of the trainer's file.
TEST(OthersHostile, WrongValuesHaveTheirLine) {
  const OtherRun run = other_run(kAxolotl + "num_epochs: many\nlr_scheduler: cosin\n");
  expect_finding(run, "refused run.yaml:12 num_epochs:");
  expect_finding(run, "refused run.yaml:13 lr_scheduler:");
  EXPECT_EQ(run.refused.size(), 2U) << findings_of(run);
}

// Everything that hone writes of a run, it reads.
TEST(OthersHostile, OwnFileOfARunIsRead) {
  for (const std::string& text : {kAxolotl, kAxolotl + "rl: orpo\n"}) {
    const OtherRun run = other_run(text);
    EXPECT_TRUE(run.refused.empty()) << findings_of(run);
    const Plan plan = parse_run_text(run.method, hone_file(run), "hone.yaml");
    EXPECT_EQ(plan.model_name_or_path, "nowhere/model");
    EXPECT_EQ(plan.max_length, 512);
    EXPECT_FALSE(recognize(hone_file(run), "hone.yaml"));
  }
}

TEST(OthersHostile, JsonHasWhatWasSaid) {
  const base::Json json = other_json(other_run(kAxolotl + "lr_scheduler: rex\nsequence_lenn: 5\n"));
  EXPECT_EQ(json["trainer"], "axolotl");
  EXPECT_EQ(json["method"], "sft");
  EXPECT_EQ(json["options"]["lora_r"], 8);
  EXPECT_EQ(json["defaults_of_trainer"]["max_length"], 512);
  EXPECT_FALSE(json["defaults_of_trainer"].contains("lora_r"));
  EXPECT_TRUE(json["unknown"].contains("sequence_lenn"));
  EXPECT_EQ(json["refused"][0]["name"], "lr_scheduler");
  EXPECT_FALSE(json["notes"].empty());
}

TEST(OthersHostile, ChecksAreCounted) {
  EXPECT_EQ(counted_checks(false), "examined 10 of 15 checks; 5 need rows and the model's tokenizer");
  EXPECT_EQ(counted_checks(true), "examined 15 of 15 checks");
}

TEST(OthersHostile, MutatedFiles) {
  const std::vector<std::string> corpus = {
      "0" + kAxolotl, "1" + kFactory, "2" + kScript, "3" + kTorchtune,
      "2{\"tuner_type\": \"lora\", \"model\": \"m\", \"dataset\": [\"a#5\"]}"};
  const auto mutated = [](const std::string& text, fuzz::Random& random) {
    return text.substr(0, 1) + fuzz::mutated_bytes(text.substr(1), random);
  };
  const fuzz::Count count = fuzz::run(fuzz::seconds(2), corpus, mutated, [](const std::string& text) {
    const Trainer trainer = static_cast<Trainer>(text.empty() ? 0 : (text[0] - '0') % 4);
    const std::string rest = text.empty() ? "" : text.substr(1);
    recognize(rest, "run.yaml");
    const OtherRun run = read_other(rest, {.path = "run.yaml"}, {trainer, "--as"});
    hone_file(run);
    base::dump_json(other_json(run));
  });
  EXPECT_GT(count.taken, 0U);
  EXPECT_GT(count.refused, 0U);
}

}  // namespace others_hostile_test
}  // namespace hone::config
