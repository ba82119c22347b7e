// Options without effect: what they hold is a note and never a mistake.
#include "config/options/idle_options.h"

#include <algorithm>
#include <set>

#include "config/helpers.h"
#include "config/method_of.h"
#include "config/write_plan.h"

namespace hone::config {
namespace idle_options_test {

const std::vector<std::string> kWholeModel = {"--use_peft", "false"};

class IdleOptions : public ConfigTest {
 protected:
  // The note about `name`, or "".
  static std::string note_of(const Plan& plan, const std::string& name) {
    const auto at = std::find_if(plan.notes.begin(), plan.notes.end(),
                                 [&](const std::string& note) { return note.starts_with(name + ":"); });
    return at == plan.notes.end() ? std::string() : *at;
  }
};

TEST_F(IdleOptions, OfAnAdapterThatIsNotTrained) {
  const Plan plan =
      run_yaml("lora_r: -100\nlora_alpha: none\nlora_dropout: 7\nbias: sometimes\n", kWholeModel);
  EXPECT_EQ(note_of(plan, "lora_r"),
            "lora_r: -100 is not used, the whole model is trained (use_peft: false)");
  EXPECT_EQ(note_of(plan, "lora_alpha"),
            "lora_alpha: 'none' is not used, the whole model is trained (use_peft: false)");
  EXPECT_NE(note_of(plan, "lora_dropout").find("not used"), std::string::npos);
  EXPECT_NE(note_of(plan, "bias").find("'sometimes'"), std::string::npos);
  EXPECT_EQ(plan.lora_r, 16);
  EXPECT_FALSE(yaml_error("lora_r: -100\n").empty());
  EXPECT_EQ(run_yaml("lora_target_modules: []\n", kWholeModel).use_peft, false);
}

TEST_F(IdleOptions, OfAScheduleWithoutWarmup) {
  EXPECT_NE(note_of(run_yaml("lr_scheduler_type: constant\nwarmup_steps: -3\n"), "warmup_steps").find("-3"),
            std::string::npos);
  EXPECT_NE(note_of(run_yaml("lr_scheduler_type: constant\nwarmup_steps: 1.5\n"), "warmup_steps"), "");
  EXPECT_FALSE(yaml_error("lr_scheduler_type: constant_with_warmup\nwarmup_steps: -3\n").empty());
}

TEST_F(IdleOptions, ThatHoneIgnores) {
  const Plan plan = grpo({"--vllm_server_port", "auto", "--vllm_gpu_memory_utilization", "most",
                          "--dataloader_num_workers", "many", "--data_seed", "-1"});
  EXPECT_EQ(note_of(plan, "vllm_server_port"),
            "vllm_server_port: 'auto' is not used, read only by vLLM; hone samples with the trainer's own "
            "weights");
  EXPECT_NE(note_of(plan, "dataloader_num_workers").find("'many' is not used"), std::string::npos);
}

TEST_F(IdleOptions, OfALossThatIsNotChosen) {
  EXPECT_NE(note_of(grpo({"--sapo_temperature_pos", "-1"}), "sapo_temperature_pos").find("loss_type is not"),
            std::string::npos);
  EXPECT_NE(note_of(grpo({"--vllm_importance_sampling_mode", "other"}), "vllm_importance_sampling_mode")
                .find("correction"),
            std::string::npos);
  EXPECT_NE(note_of(grpo({"--loss_type", "cispo", "--delta", "-1"}), "delta").find("two-sided"),
            std::string::npos);
  EXPECT_NE(note_of(grpo({"--loss_type", "gmpo", "--delta", "-1"}), "delta").find("gmpo does not read it"),
            std::string::npos);
  EXPECT_NE(note_of(grpo({"--cosine_max_len", "0"}), "cosine_max_len").find("no cosine"), std::string::npos);
  EXPECT_THROW(grpo({"--loss_type", "sapo", "--sapo_temperature_pos", "-1"}), base::UserError);
}

TEST_F(IdleOptions, OfARunThatEndsByItsSteps) {
  EXPECT_NE(note_of(run_yaml("max_steps: 5\nnum_train_epochs: -1\n"), "num_train_epochs").find("max_steps"),
            std::string::npos);
  EXPECT_FALSE(yaml_error("num_train_epochs: -1\n").empty());
}

TEST_F(IdleOptions, WithoutEvaluationOrSaving) {
  const Plan plan = run_yaml(
      "eval_strategy: \"no\"\neval_steps: -5\nper_device_eval_batch_size: 0\nsave_strategy: \"no\"\nsave_steps: -1\n"
      "save_total_limit: 0\n");
  for (const char* name : {"eval_steps", "per_device_eval_batch_size", "save_steps", "save_total_limit"})
    EXPECT_NE(note_of(plan, name), "") << name;
}

TEST_F(IdleOptions, OfQuantizationAndPackingThatAreOff) {
  EXPECT_NE(
      note_of(run_yaml("bnb_4bit_quant_type: int3\n"), "bnb_4bit_quant_type").find("load_in_4bit is false"),
      std::string::npos);
  EXPECT_EQ(note_of(run_yaml("packing_strategy: wrapped\n"), "packing_strategy"),
            "packing_strategy: not used, packing is false");
  EXPECT_EQ(note_of(run_yaml("use_bnb_nested_quant: true\n"), "use_bnb_nested_quant"),
            "use_bnb_nested_quant: not used, load_in_4bit is false");
}

TEST_F(IdleOptions, AnUnknownNameStaysAMistake) {
  EXPECT_NE(yaml_error("lora_rr: 4\n", kWholeModel).find("unknown option lora_rr"), std::string::npos);
}

// How a value is written stays a mistake, whatever the option does.
TEST_F(IdleOptions, MistakesOfFormStayMistakes) {
  const auto told = [&](std::vector<std::string> words) {
    words.insert(words.end(), kWholeModel.begin(), kWholeModel.end());
    return run_error(words);
  };
  EXPECT_NE(told({"--lora_r"}).find("expected one value"), std::string::npos);
  EXPECT_NE(told({"--lora_r", "1", "2"}).find("found:  2: 1 2"), std::string::npos);
  EXPECT_NE(told({"--no_use_dora", "true"}).find("expected no value"), std::string::npos);
  EXPECT_NE(told({"--lora_target_modules", "a", "--lora_target_modules", "b"}).find("the option once"),
            std::string::npos);
  EXPECT_NE(told({"--lora_target_modules", "caf\xE9"}).find("UTF-8"), std::string::npos);
  EXPECT_NE(yaml_error("lora_r: 4\nlora_r: 8\n", kWholeModel).find("each option once"), std::string::npos);
  EXPECT_NE(yaml_error("lora_r: 4\nlora_rank: 8\n", kWholeModel).find("one value of lora_r"),
            std::string::npos);
  EXPECT_NE(yaml_error("rank_pattern: &x {a: *x}\n", kWholeModel).find("levels deep"), std::string::npos);
  // Both values are told where both are wrong, and the run goes on.
  const Plan twice = run_yaml("lora_r: many\nuse_dora: perhaps\n",
                              {"--use_peft", "false", "--lora_r", "more", "--lora_r", "x"});
  EXPECT_NE(note_of(twice, "lora_r").find("'many' is not used"), std::string::npos);
}

// What decides is itself a mistake: nothing is excused by its default.
TEST_F(IdleOptions, AMistakeInWhatDecidesExcusesNothing) {
  const std::string told = yaml_error("lora_r: -100\n", {"--use_peft", "perhaps"});
  EXPECT_NE(told.find("use_peft"), std::string::npos);
  EXPECT_NE(told.find("lora_r"), std::string::npos);
}

// Each name of the rules is an option, and each option that a rule reads is one, of some method.
TEST(IdleOptionsTable, NamesOptions) {
  std::set<std::string> known;
  for (const std::string& method : method_names()) {
    for (const Option& option : method_schema(*find_method(method)).options) known.emplace(option.name);
  }
  for (const std::string_view list : {kOnlyOfAdapters, kOnlyOfFullTraining, kOfNewAdapters}) {
    for (const std::string& name : split_words(list)) EXPECT_TRUE(known.contains(name)) << name;
  }
  for (const std::string& name : names_of_idle_rules()) EXPECT_TRUE(known.contains(name)) << name;
}

TEST_F(IdleOptions, BatchSizeYieldsToItsOwnOption) {
  const Plan both = run_yaml("batch_size: 64\nper_device_train_batch_size: 2\n");
  EXPECT_EQ(both.per_device_train_batch_size, 2);
  EXPECT_EQ(
      note_of(both, "batch_size"),
      "batch_size: not used, per_device_train_batch_size is there too; what it means depends on the script: "
      "rows of a micro-batch, or of an optimizer step");
  EXPECT_EQ(run_yaml("per_device_train_batch_size: 2\nbatch_size: 64\n").per_device_train_batch_size, 2);
  const Plan one = run_yaml("batch_size: 4\n");
  EXPECT_EQ(one.per_device_train_batch_size, 4);
  EXPECT_NE(note_of(one, "batch_size").find("read as per_device_train_batch_size, what it means depends"),
            std::string::npos);
  EXPECT_EQ(run_yaml("batch_size: 4\n", {"--per_device_train_batch_size", "3"}).per_device_train_batch_size,
            3);
  EXPECT_FALSE(yaml_error("batch_size: some\n").empty());
}

}  // namespace idle_options_test
}  // namespace hone::config
