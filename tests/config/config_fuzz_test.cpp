// Mutated YAML through every method's parser: a plan or a sentence.
#include "config/helpers.h"
#include "fuzz/mutate.h"

namespace hone::config {
namespace config_fuzz_test {

class ConfigFuzz : public ConfigTest {
 protected:
  void fuzz_yaml(double seconds) const;
};

std::vector<std::string> corpus(const std::string& base) {
  return {
      base +
          "seed: 3\nlora_target_modules: [q_proj, v_proj]\nlr_scheduler_kwargs: {num_cycles: 0.5}\n"
          "lr_scheduler_type: cosine\nreport_to: [none, tensorboard]\nmax_length: 128\nthreads: 2\n",
      base + "defaults: &d\n  seed: 1\n<<: *d\ntrainable_token_indices: [1, 2]\n",
      base + "a: &x [*x]\n<<: {seed: 1, <<: {threads: 1}}\noptim_target_modules: &a [1, [*a], {b: *a}]\n",
      base +
          "save_steps: 0.5\nlogging_steps: 10\nwarmup_steps: 0.1\nmax_steps: 100\neval_strategy: \"no\"\n"
          "per_device_train_batch_size: 8\ngradient_accumulation_steps: 2147483648\nmemory_limit: 2GB\n",
      base +
          "reward_funcs: [accuracy_reward, think_format_reward]\nreward_weights: [1, 0.5]\n"
          "num_generations: 4\ngeneration_kwargs: {top_k: 5, stop_strings: [\"a\"], eos_token_id: [1]}\n"
          "chat_template_kwargs: {enable_thinking: false}\ngeneration_batch_size: 8\nbeta: 0.1\n",
      base + "loss_type: [sigmoid, sft]\nloss_weights: [1, 0.1]\nbeta: [0.1, 0.2]\nlabel_smoothing: 0.1\n",
  };
}

// The first line says whose options they are: "# 3".
void take(const std::string& text) {
  static const std::vector<Method> methods = {Method::kSft, Method::kGrpo,   Method::kRloo,     Method::kDpo,
                                              Method::kKto, Method::kReward, Method::kOnlineDpo};
  const std::size_t which = text.size() > 2 ? static_cast<unsigned char>(text[2]) - std::size_t{'0'} : 0;
  parse_run_text(methods[which % methods.size()], text, "run.yaml");
}

std::string mutated(const std::string& text, fuzz::Random& random) {
  return "# " + std::to_string(random.below(7)) + "\n" + fuzz::mutated_bytes(text, random);
}

// In the folder itself, so that the text has no path that differs from run to run.
void ConfigFuzz::fuzz_yaml(double seconds) const {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(root_);
  const std::string base = "model_name_or_path: model\ndataset_name: train.jsonl\nuse_peft: true\n";
  const fuzz::Count count = fuzz::run(fuzz::seconds(seconds), corpus(base), mutated, take);
  std::filesystem::current_path(before);
  EXPECT_GT(count.taken, 0U);
  EXPECT_GT(count.refused, 0U);
}

TEST_F(ConfigFuzz, Yaml) {
  fuzz_yaml(2);
}

TEST_F(ConfigFuzz, SlowYaml) {
  fuzz_yaml(60);
}

}  // namespace config_fuzz_test
}  // namespace hone::config
