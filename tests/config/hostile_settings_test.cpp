// Options and YAML that would cost a signal, exit 70 or gigabytes: each is a sentence.
#include <algorithm>
#include <ctime>

#include "base/json_tools.h"
#include "config/datasets/trained_on.h"
#include "config/helpers.h"
#include "config/option_table.h"
#include "config/settings.h"
#include "config/write_plan.h"

namespace hone::config {
namespace hostile_settings_test {

using HostileSettings = ConfigTest;

std::string doubled(int levels, const std::string& opening) {
  std::string yaml = "chat_template_path:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  std::string line;
  for (int i = 1; i < levels; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    line = below;
    for (int k = 1; k < 10; ++k) line += ", " + below;
    yaml += "  a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + line + "]\n";
  }
  return opening + yaml.substr(yaml.find('\n') + 1);
}

TEST_F(HostileSettings, AliasWithinItself) {
  for (const char* option : {"lr_scheduler_kwargs", "optim_target_modules", "trainable_token_indices"}) {
    const std::string error = yaml_error(std::string(option) + ": &x {a: *x}\n");
    EXPECT_NE(error.find("at most 100 levels"), std::string::npos) << error;
  }
  EXPECT_NE(yaml_error("optim_target_modules: &x [*x, *x]\n").find("levels"), std::string::npos);
  EXPECT_NE(yaml_error("<<: &x\n  <<: *x\n").find("levels"), std::string::npos);
}

TEST_F(HostileSettings, AliasesOfAliases) {
  const std::string error = yaml_error(doubled(10, "optim_target_modules:\n"));
  EXPECT_NE(error.find("aliases of aliases"), std::string::npos) << error;
  std::string merges = "a0: &a0 {seed: 1}\n";
  for (int i = 1; i < 30; ++i) {
    const std::string below = std::to_string(i - 1);
    merges +=
        "a" + std::to_string(i) + ": &a" + std::to_string(i) + " {<<: [*a" + below + ", *a" + below + "]}\n";
  }
  EXPECT_NE(yaml_error(merges + "<<: *a29\n").find("aliases of aliases"), std::string::npos);
}

// Options that take environment variables are copied with the variables' values: the whole value is counted
// before that.
TEST_F(HostileSettings, AliasesBesideEnvironmentVariables) {
  for (const char* option : {"optim_target_modules", "trainable_token_indices"}) {
    const std::string error = yaml_error(std::string(option) + ": &x [$HOME_OF_NOBODY, *x]\n");
    EXPECT_NE(error.find("at most 100 levels"), std::string::npos) << error;
  }
  const std::string deep = doubled(10, "optim_target_modules:\n  first: $HOME_OF_NOBODY\n");
  EXPECT_NE(yaml_error(deep).find("aliases of aliases"), std::string::npos);
}

TEST_F(HostileSettings, AnAliasUsedTwiceIsNothingHostile) {
  const Plan plan = run_yaml("lora_target_modules: &m [q_proj, v_proj]\nlora_exclude_modules: *m\n");
  EXPECT_EQ(plan.lora_exclude_modules, plan.lora_target_modules);
}

TEST_F(HostileSettings, DeepAndLargeFiles) {
  for (const char* piece : {"[", "{a: ", "- ", "? "}) {
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += piece;
    EXPECT_FALSE(yaml_error("optim_target_modules: " + deep + "\n").empty()) << piece;
    EXPECT_FALSE(yaml_error("optim_target_modules:\n  " + deep + "\n").empty()) << piece;
  }
  const std::string flat(100'000, '[');
  EXPECT_NE(run_error({"--lr_scheduler_kwargs", flat}).find("a mapping"), std::string::npos);
  EXPECT_NE(run({"--optim_target_modules", flat}).notes.front().find("GaLore"), std::string::npos)
      << "taken as text";
  EXPECT_NE(run_error({"--trainable_token_indices", flat}).find("token ids"), std::string::npos);
  EXPECT_NE(yaml_error("output_dir: " + std::string(2'000'000, 'x')).find("at most 1"), std::string::npos);
  std::string documents;
  for (int i = 0; i < 200'000; ++i) documents += "---\n";
  EXPECT_FALSE(yaml_error(documents).empty());
}

// Found by the fuzzer: yaml-cpp gave empty documents without end.
TEST_F(HostileSettings, CommaAtTheBeginningOfALine) {
  for (const char* line : {",a: b\n", ", \n", "a: 1\n, b\n", "]\n", "}\n"}) {
    Settings settings(method_schema(Method::kSft));
    EXPECT_FALSE(error_of([&] { settings.read_yaml_text(line, "run.yaml"); }).empty()) << line;
  }
}

TEST_F(HostileSettings, ManyKeysInLinearTime) {
  std::string yaml = "lr_scheduler_kwargs:\n";
  for (int i = 0; i < 12'000; ++i) yaml += "  k" + std::to_string(i) + ": 1\n";
  const std::clock_t begin = std::clock();
  EXPECT_NE(yaml_error(yaml).find("unknown key 'k0'"), std::string::npos);
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
}

TEST_F(HostileSettings, BytesThatAreNoText) {
  const std::string latin = "caf\xE9";
  for (const char* option :
       {"--output_dir", "--dataset_text_field", "--lora_target_modules", "--eos_token"}) {
    const std::string error = run_error({option, latin});
    EXPECT_NE(error.find("caf\\xE9"), std::string::npos) << error;
    EXPECT_NE(error.find(option), std::string::npos) << error;
  }
  EXPECT_NE(yaml_error("output_dir: \"" + latin + "\"\n").find("UTF-8"), std::string::npos);
  EXPECT_NE(yaml_error("output_dir: \"a\\0b\"\n").find("NUL"), std::string::npos);
  EXPECT_FALSE(yaml_error("lr_scheduler_kwargs: {" + latin + ": 1}\n").empty());
  EXPECT_FALSE(run_error({"--learning_rate", latin}).empty());
  EXPECT_FALSE(run_error({"--" + latin, "1"}).empty());
  EXPECT_FALSE(run_error({"--lr_scheduler_type", latin}).empty());
}

// Every whole number of every command, at what 32 and 64 bits hold: in range, or refused with the option's
// name.
TEST_F(HostileSettings, WholeNumbersAtTheirLimits) {
  for (const Schema* schema : all_schemas()) {
    for (const Option& option : schema->options) {
      if (option.kind != Kind::kInt && option.kind != Kind::kFloat) continue;
      for (const char* text : {"2147483648", "4294967296", "4611686018427387904", "9223372036854775807",
                               "-9223372036854775808", "1e308", "-1e308"}) {
        Settings settings(*schema);
        const std::string name(option.name);
        std::vector<std::string> notes;
        try {
          std::vector<std::string> words = {"--" + name + "=" + text};
          for (const char* const effect : {"use_peft=true", "eval_strategy=steps"}) {
            if (schema->find(std::string(effect).substr(0, std::string(effect).find('='))) != nullptr)
              words.push_back(std::string("--") + effect);
          }
          settings.read_arguments(words);
          notes = settings.collect_values();
          settings.throw_mistakes();
        } catch (const base::UserError& error) {
          EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
          continue;
        }
        const bool seed = name == "seed" || name == "data_seed";
        // An option without effect: the value is told, and the default is what is left.
        const bool left = !settings.is_set(name) && settings.value(name) == option.default_value() &&
                          std::any_of(notes.begin(), notes.end(), [&](const std::string& note) {
                            return note.starts_with(name + ": ") && note.find(" is not used, ") != note.npos;
                          });
        EXPECT_TRUE(seed || left || option.kind == Kind::kFloat)
            << schema->command << " --" << name << " " << text;
      }
    }
  }
  EXPECT_NE(run_error({"--threads", "2147483648"}).find("from 0 to 4096"), std::string::npos);
}

TEST_F(HostileSettings, LongWordsDoNotFillTheTerminal) {
  const std::string word(100'000, 'a');
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--lr_scheduler_type", word},
                                             {"--learning_rate", word},
                                             {"--" + word, "1"},
                                             {"--dataset_name", word + "/" + word},
                                             {word}}) {
    EXPECT_LT(run_error(more).size(), 5000U);
  }
}

TEST_F(HostileSettings, NotesBesideAForeignAdapter) {
  write("adapter/base_adapters.json", R"({"base_adapters": [1, null]})");
  Settings settings(generate_schema());
  std::vector<std::string> notes;
  const std::string error = error_of([&] { inherit_base_options(settings, path("adapter"), notes); });
  EXPECT_NE(error.find("a list of folders"), std::string::npos) << error;
}

}  // namespace hostile_settings_test
}  // namespace hone::config
