// Adapters that nobody means well, and the fuzz test of what reads them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "adapters/peft_files.h"
#include "base/error.h"
#include "base/files/safetensors.h"
#include "fuzz/mutate.h"
#include "model/config/model_config.h"

namespace hone::adapters {
namespace hostile_adapters_test {

namespace fs = base::fs;
using base::Json;

// A copy of a recorded adapter, of which the config or the weights' header is replaced.
class Adapter {
 public:
  explicit Adapter(const std::string& name = "adapter")
      : from_(fs::path(HONE_FIXTURES) / "parity/tiny_llama" / name) {
    std::string pattern = (fs::temp_directory_path() / "hone-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    folder_ = pattern;
    for (const char* file : {kConfigFile, kWeightsFile}) fs::copy(from_ / file, folder_ / file);
    const fs::path config = from_.parent_path() / "config.json";
    model_ = model::parse_model_config(base::parse_json(base::read_text(config), ""), "model");
    weights_ = base::read_text(from_ / kWeightsFile);
    for (unsigned i = 0; i < 8; ++i) {
      header_size_ |= static_cast<std::size_t>(static_cast<unsigned char>(weights_[i])) << (8 * i);
    }
  }
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;
  ~Adapter() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  std::string config() const { return base::read_text(from_ / kConfigFile); }
  std::string header() const { return weights_.substr(8, header_size_); }

  void put_config(const std::string& text) const { put(kConfigFile, text); }
  void put_header(const std::string& text) const {
    std::string size;
    for (unsigned i = 0; i < 8; ++i) size += static_cast<char>(text.size() >> (8 * i) & 0xFFU);
    put(kWeightsFile, size + text + weights_.substr(8 + header_size_));
  }
  void read() const { read_adapter(folder_, model_); }
  std::string refused(const std::string& config) const {
    put_config(config);
    try {
      read();
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "taken";
  }
  std::string refused(const std::string& key, const Json& value) const {
    Json json = base::parse_json(config(), "config");
    json[key] = value;
    return refused(base::dump_json(json));
  }

 private:
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  fs::path from_, folder_;
  model::ModelConfig model_;
  std::string weights_;
  std::size_t header_size_ = 0;
};

TEST(HostileAdapter, NumbersAtTheirLimits) {
  const Adapter adapter;
  ASSERT_EQ(adapter.refused(adapter.config()), "taken");
  for (const char* key : {"r", "lora_alpha", "lora_dropout"}) {
    for (const char* text :
         {"2147483648", "9223372036854775807", "18446744073709551615", "-1e308", "1e308"}) {
      const std::string error = adapter.refused(key, Json::parse(text));
      EXPECT_NE(error.find(key), std::string::npos) << key << " " << text << ": " << error;
    }
  }
  for (const char* key : {"rank_pattern", "alpha_pattern", "layer_replication", "target_parameters"}) {
    EXPECT_NE(adapter.refused(key, {{"q_proj", 9223372036854775807}}).find(key), std::string::npos) << key;
  }
  for (const Json& ids : {Json::array({18446744073709551615U}), Json::array({-1}), Json::array({1, 1})}) {
    EXPECT_NE(adapter.refused("trainable_token_indices", ids).find("trainable_token_indices"),
              std::string::npos);
  }
}

TEST(HostileAdapter, DeepAndLong) {
  const Adapter adapter;
  EXPECT_NE(adapter.refused(std::string(100'000, '[')).find("256 levels"), std::string::npos);
  Json names = Json::array();
  for (int i = 0; i < 100'000; ++i) names.push_back("a name");
  for (const char* key : {"rank_pattern", "init_lora_weights", "task_type", "modules_to_save"}) {
    EXPECT_LT(adapter.refused(key, names).size(), 5000U) << key;
  }
  EXPECT_LT(adapter.refused(std::string(100'000, 'k'), 1).size(), 5000U);
  adapter.put_config(adapter.config());
  adapter.put_header(std::string(100'000, '['));
  EXPECT_THROW(adapter.read(), base::UserError);
}

void fuzz_adapters(double seconds) {
  const Adapter plain, dora("adapter_dora"), tokens("adapter_tokens"), saved("adapter_saved"),
      patterns("adapter_patterns");
  std::vector<std::string> corpus;
  for (const Adapter* one : {&plain, &dora, &tokens, &saved, &patterns}) corpus.push_back(one->config());
  corpus.push_back(plain.header());
  fuzz::run(fuzz::seconds(seconds), corpus, fuzz::mutated_json_text, [&](const std::string& text) {
    const bool header = text.find("data_offsets") != std::string::npos;
    const Adapter& one = text.find("\"use_dora\": true") != std::string::npos                ? dora
                         : text.find("modules_to_save\": null") == std::string::npos         ? saved
                         : text.find("rank_pattern\": {}") == std::string::npos              ? patterns
                         : text.find("trainable_token_indices\": null") == std::string::npos ? tokens
                                                                                             : plain;
    if (header) {
      plain.put_config(plain.config());
      plain.put_header(text);
      plain.read();
    } else {
      one.put_header(one.header());
      one.put_config(text);
      one.read();
    }
  });
}

TEST(AdapterFuzz, Files) {
  fuzz_adapters(2);
}
TEST(AdapterFuzz, SlowFiles) {
  fuzz_adapters(60);
}

}  // namespace hostile_adapters_test
}  // namespace hone::adapters
