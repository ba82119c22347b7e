// Paths that are not there, or are something else: told before anything is loaded or written.
#include "config/helpers.h"

namespace hone::config {
namespace check_files_test {

class FilesTest : public ConfigTest {
 protected:
  std::string fault(const std::string& option, const std::string& value) const {
    return short_paths(run_error({"--" + option, value}));
  }
};

TEST_F(FilesTest, AMissingModelHasANeighbor) {
  EXPECT_EQ(fault("model_name_or_path", path("modle")),
            "[--model_name_or_path] expected a model folder or .gguf file as model_name_or_path\n"
            "  found:  'modle' does not exist. Did you mean 'model'?\n"
            "  do:     correct the path");
}

TEST_F(FilesTest, FoldersThatAreSomethingElse) {
  EXPECT_NE(fault("model_name_or_path", path("rows")).find("expected config.json in the model folder rows"),
            std::string::npos);
  EXPECT_NE(fault("model_name_or_path", path("adapter"))
                .find("adapter_config.json: this is an adapter, not a model"),
            std::string::npos);
  EXPECT_NE(fault("model_name_or_path", path("train.jsonl")).find("expected a model folder or .gguf file"),
            std::string::npos);
  EXPECT_NE(
      fault("adapter_name_or_path", path("model")).find("expected adapter_config.json in the folder model"),
      std::string::npos);
  EXPECT_EQ(fault("dataset_name", path("model")),
            "[--dataset_name] expected data files in model as dataset_name\n"
            "  found:  none\n"
            "  do:     name a folder with .jsonl, .json, .csv, .tsv, .parquet or .arrow files");
  EXPECT_NE(fault("dataset_name", path("template.jinja")).find("the name tells the format"),
            std::string::npos);
}

TEST_F(FilesTest, AGgufFileIsAModel) {
  write("m.gguf", "GGUF");
  EXPECT_EQ(run({"--model_name_or_path", path("m.gguf")}).model_name_or_path, path("m.gguf"));
}

TEST_F(FilesTest, MissingFiles) {
  EXPECT_EQ(fault("dataset_name", path("trian.jsonl")),
            "[--dataset_name] expected a file or folder of rows as dataset_name\n"
            "  found:  'trian.jsonl' does not exist. Did you mean 'train.jsonl'?\n"
            "  do:     correct the path");
  EXPECT_NE(fault("adapter_name_or_path", path("none")).find("'none' does not exist."), std::string::npos);
  EXPECT_NE(fault("chat_template_path", path("none")).find("expected a file as chat_template_path"),
            std::string::npos);
  EXPECT_NE(fault("chat_template_path", path("")).find("a folder with tokenizer.json, as chat_template_path"),
            std::string::npos);
  // Hub and path: a first folder that is here makes it a path.
  const std::string both = fault("model_name_or_path", "tests/no-such-model");
  EXPECT_NE(both.find("'tests/no-such-model' does not exist"), std::string::npos) << both;
  EXPECT_NE(both.find("as a name of the hub it is not in "), std::string::npos) << both;
  EXPECT_NE(both.find("since a folder 'tests' is here"), std::string::npos) << both;
  EXPECT_NE(fault("resume_from_checkpoint", path("none")).find("expected a checkpoint folder, or true"),
            std::string::npos);
  EXPECT_NE(fault("dataset_name", "none.jsonl").find("relative to the folder in which you run hone"),
            std::string::npos);
  EXPECT_NE(short_paths(run_error({"--eval_dataset", path("none.jsonl"), "--eval_strategy", "epoch"}))
                .find("expected a file or folder of rows as eval_dataset"),
            std::string::npos);
}

TEST_F(FilesTest, AnEmptyNameIsNoFolder) {
  EXPECT_NE(run_error({"--base_adapters", ""}).find("a folder with adapter_config.json as base_adapters"),
            std::string::npos);
  EXPECT_NE(run_error({"--init_lora_weights", "pissa_niter_N"}).find("N stands for a whole number"),
            std::string::npos);
}

TEST_F(FilesTest, AFolderWithoutTheSplit) {
  EXPECT_EQ(short_paths(run_error({"--dataset_name", path("rows"), "--eval_strategy", "epoch",
                                   "--dataset_test_split", "dev"}))
                .find("[--dataset_name] expected the split 'dev' in rows\n  found:  the splits train"),
            0U);
}

TEST_F(FilesTest, NothingIsWritten) {
  run_error({"--output_dir", path("out"), "--lora_r", "0"});
  run({"--output_dir", path("out")});
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

}  // namespace check_files_test
}  // namespace hone::config
