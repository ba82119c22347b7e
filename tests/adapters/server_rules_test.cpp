// The table of what servers do with the tensors of an adapter: a rule of each fate and of each server.
#include "adapters/server_rules.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "adapters/peft_files.h"
#include "base/error.h"
#include "base/files/safetensors.h"
#include "base/json.h"

namespace hone::adapters {
namespace server_rules_test {

namespace fs = base::fs;
using base::Json;
using Fates = std::map<std::string, KeyFate>;

// A folder of an adapter with the tensors `keys`, of one number each.
class Folder {
 public:
  Folder(const std::vector<std::string>& keys, const Json& config) {
    std::string pattern = (fs::temp_directory_path() / "hone-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
    std::ofstream(path_ / kConfigFile) << base::dump_json(config);
    static constexpr std::array<std::byte, 4> kZero = {};
    std::vector<base::StoredTensor> stored;
    for (const std::string& key : keys)
      stored.push_back({.name = key, .dtype = base::DType::kF32, .shape = {1}, .bytes = kZero});
    base::write_safetensors(path_ / kWeightsFile, stored, {});
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

constexpr const char* kPrefix = "base_model.model.";
constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.";
constexpr const char* kExperts = "model.layers.0.mlp.experts.";

std::vector<std::string> lora_of(const std::string& module) {
  return {kPrefix + module + "lora_A.weight", kPrefix + module + "lora_B.weight"};
}

// The LoRA of one linear, and `more`.
std::vector<std::string> with(const std::vector<std::string>& more) {
  std::vector<std::string> out = lora_of(kQuery);
  for (const std::string& key : more) out.push_back(kPrefix + key);
  return out;
}

std::vector<KeyGroup> groups(Server server, const std::vector<std::string>& keys, const Json& config = {},
                             model::Family family = model::Family::kLlama, bool wrapped = false) {
  Json options = {{"r", 8}, {"lora_alpha", 16}};
  if (config.is_object()) options.update(config);
  model::ModelConfig model;
  model.family = family;
  model.wrapped = wrapped;
  return keys_on_server(Folder(keys, options).path(), model, server);
}

// The fate of each kind; a kind has one here.
Fates fates(const std::vector<KeyGroup>& groups) {
  Fates out;
  for (const KeyGroup& one : groups) out[one.what] = one.fate;
  return out;
}

constexpr const char* kLinears = "LoRA of linears";

TEST(ServerRules, AnUsualAdapterIsAppliedByEachServerThatHasRules) {
  for (const std::string& word : server_words()) {
    if (word == "other") continue;
    const std::vector<KeyGroup> found = groups(server_of_word(word).value(), lora_of(kQuery));
    ASSERT_EQ(found.size(), 1U) << word;
    EXPECT_EQ(found[0].fate, KeyFate::kApplied) << word;
    EXPECT_EQ(found[0].keys, 2) << word;
    EXPECT_EQ(found[0].why + found[0].fix, "") << word;
    EXPECT_EQ(found[0].example, lora_of(kQuery)[0]) << word;
  }
}

TEST(ServerRules, AnotherServerIsNeverSure) {
  const std::vector<KeyGroup> found = groups(Server::kOther, with({"model.norm.weight"}));
  EXPECT_EQ(fates(found), (Fates{{kLinears, KeyFate::kUnsure}, {"norms trained in full", KeyFate::kUnsure}}));
  EXPECT_NE(found[0].fix.find("--server"), std::string::npos);
}

TEST(ServerRules, KindsOfTensors) {
  struct Case {
    Server server;
    const char* key;
    const char* what;
    KeyFate fate;
  };
  const std::string query = kQuery;
  const std::string magnitude = query + "lora_magnitude_vector", bias = query + "bias";
  const std::string rows = "model.embed_tokens.token_adapter.trainable_tokens_delta";
  const std::string experts = std::string(kExperts) + "lora_A.weight";
  for (const Case& one : {
           Case{Server::kHone, "score.weight", "head of a reward model", KeyFate::kRefused},
           Case{Server::kHone, "model.norm.weight", "norms trained in full", KeyFate::kUnsure},
           Case{Server::kHone, magnitude.c_str(), "magnitudes of DoRA", KeyFate::kApplied},
           Case{Server::kVllm, magnitude.c_str(), "magnitudes of DoRA", KeyFate::kRefused},
           Case{Server::kVllm, rows.c_str(), "trained rows of the embedding", KeyFate::kRefused},
           Case{Server::kVllm, experts.c_str(), "LoRA of stacked experts", KeyFate::kDropped},
           Case{Server::kSglang, "lm_head.weight", "head or embedding trained in full", KeyFate::kDropped},
           Case{Server::kSglang, bias.c_str(), "trained biases", KeyFate::kDropped},
           Case{Server::kLlamaCpp, "model.norm.weight", "norms trained in full", KeyFate::kDropped},
           Case{Server::kLlamaCpp, "lm_head.weight", "head or embedding trained in full", KeyFate::kRefused},
           Case{Server::kLlamaCpp, "lm_head.lora_A.weight", "LoRA of the head", KeyFate::kApplied},
           Case{Server::kOllama, "model.strange", "tensors of another kind", KeyFate::kUnsure},
       }) {
    const std::vector<KeyGroup> found = groups(one.server, with({one.key}));
    EXPECT_EQ(fates(found), (Fates{{kLinears, KeyFate::kApplied}, {one.what, one.fate}}))
        << server_name(one.server) << ' ' << one.key;
    EXPECT_GE(found[0].fate, found.back().fate) << "the worst is the first";
    EXPECT_EQ(found[0].why.empty(), one.fate == KeyFate::kApplied);
    EXPECT_EQ(found[0].fix.empty(), one.fate == KeyFate::kApplied);
  }
}

TEST(ServerRules, OptionsOfTheAdapter) {
  struct Case {
    Server server;
    Json config;
    KeyFate fate;
  };
  const Json rslora = {{"use_rslora", true}}, alphas = {{"alpha_pattern", {{"q_proj", 4}}}};
  for (const Case& one : {
           Case{Server::kHone, rslora, KeyFate::kApplied},
           Case{Server::kVllm, rslora, KeyFate::kApplied},
           Case{Server::kSglang, rslora, KeyFate::kScaledWrongly},
           Case{Server::kLlamaCpp, rslora, KeyFate::kScaledWrongly},
           Case{Server::kOllama, rslora, KeyFate::kScaledWrongly},
           Case{Server::kLlamaCpp, alphas, KeyFate::kScaledWrongly},
           Case{Server::kSglang, alphas, KeyFate::kUnsure},
           Case{Server::kVllm, {{"r", 16}}, KeyFate::kApplied},
           Case{Server::kVllm, {{"r", 17}}, KeyFate::kRefused},
           Case{Server::kVllm, {{"rank_pattern", {{"q_proj", 32}}}}, KeyFate::kRefused},
           Case{Server::kSglang, {{"r", 17}}, KeyFate::kApplied},
           Case{Server::kSglang, {{"target_modules", ".*q_proj"}}, KeyFate::kRefused},
           Case{Server::kSglang, {{"target_modules", {"q_proj"}}}, KeyFate::kApplied},
           Case{Server::kSglang, {{"use_rslora", "yes"}, {"rank_pattern", 3}}, KeyFate::kApplied},
       }) {
    EXPECT_EQ(fates(groups(one.server, lora_of(kQuery), one.config)), (Fates{{kLinears, one.fate}}))
        << server_name(one.server) << ' ' << base::dump_json(one.config);
  }
}

TEST(ServerRules, TheBaseCounts) {
  const std::vector<std::string> keys = lora_of(kQuery);
  EXPECT_EQ(groups(Server::kOllama, keys, {}, model::Family::kQwen3)[0].fate, KeyFate::kRefused);
  EXPECT_EQ(groups(Server::kOllama, keys, {}, model::Family::kGemma2)[0].fate, KeyFate::kApplied);
  EXPECT_EQ(groups(Server::kVllm, keys, {}, model::Family::kQwen3, true)[0].fate, KeyFate::kUnsure);
  const std::vector<std::string> inner = lora_of("model.language_model.layers.0.self_attn.q_proj.");
  EXPECT_EQ(groups(Server::kVllm, inner)[0].fate, KeyFate::kUnsure);
}

TEST(ServerRules, OneSideOfTheExpertsIsDroppedAndTheirLinearsAreNot) {
  std::vector<std::string> keys = lora_of(kQuery);
  for (const std::string& key : lora_of(kExperts)) keys.push_back(key);
  const Fates one_side = {{kLinears, KeyFate::kApplied}, {"LoRA of stacked experts", KeyFate::kDropped}};
  const Fates both = {{kLinears, KeyFate::kApplied}, {"LoRA of stacked experts", KeyFate::kApplied}};
  EXPECT_EQ(fates(groups(Server::kSglang, keys, {{"target_parameters", {"mlp.experts.gate_up_proj"}}})),
            one_side);
  EXPECT_EQ(fates(groups(Server::kSglang, keys,
                         {{"target_parameters", {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}}})),
            both);
}

TEST(ServerRules, FoldersWithoutAnAdapterAreRefused) {
  const Folder folder(lora_of(kQuery), Json::object());
  fs::remove(folder.path() / kWeightsFile);
  EXPECT_THROW(keys_on_server(folder.path(), {}, Server::kVllm), base::UserError);
}

const model::ModelConfig kLlama;

std::vector<std::string> losses(const std::vector<std::string>& keys, Json config = Json::object(),
                                const model::ModelConfig* base = &kLlama) {
  config["lora_alpha"] = 16;
  if (!config.contains("r")) config["r"] = 8;
  std::vector<std::string> out;
  for (const ServerLoss& one : silent_losses(Folder(keys, config).path(), base))
    out.push_back(told_loss(one));
  return out;
}

TEST(ServerRules, OneLineASilentLossWithWhatToDo) {
  const std::vector<std::string> scaled = losses(lora_of(kQuery), {{"use_rslora", true}});
  ASSERT_EQ(scaled.size(), 3U);
  EXPECT_EQ(
      scaled[0],
      "SGLang scales wrongly 2 tensors (LoRA of linears): use_rslora is not read: the scale is alpha / r, "
      "sqrt(r) times too small; do: write lora_alpha * sqrt(r) as lora_alpha, with use_rslora false");
  EXPECT_TRUE(scaled[1].starts_with("llama-server scales wrongly 2 tensors"));
  EXPECT_TRUE(scaled[2].starts_with("Ollama scales wrongly 2 tensors"));
  const std::vector<std::string> dropped =
      losses(with({"lm_head.weight", "model.norm.weight", "model.layers.0.mlp.experts.lora_A.weight"}));
  ASSERT_EQ(dropped.size(), 3U);
  EXPECT_TRUE(dropped[0].starts_with("vLLM drops 1 tensor (LoRA of stacked experts): ")) << dropped[0];
  EXPECT_TRUE(dropped[1].starts_with(
      "SGLang drops 1 tensor (head or embedding trained in full, norms trained in full): "))
      << dropped[1];
  EXPECT_TRUE(dropped[2].starts_with("llama-server drops 1 tensor (norms trained in full): ")) << dropped[2];
  for (const std::string& one : dropped) EXPECT_NE(one.find("; do: "), std::string::npos) << one;
}

TEST(ServerRules, ARefusalHidesNoSilentLoss) {
  const std::vector<std::string> expert = with({"model.layers.0.mlp.experts.lora_A.weight"});
  const std::vector<std::string> of_rank = losses(expert, {{"r", 32}});
  ASSERT_FALSE(of_rank.empty());
  EXPECT_TRUE(of_rank[0].starts_with("vLLM drops 1 tensor (LoRA of stacked experts): ")) << of_rank[0];
  const std::vector<std::string> of_regex =
      losses(lora_of(kQuery), {{"use_rslora", true}, {"target_modules", ".*q_proj"}});
  ASSERT_FALSE(of_regex.empty());
  EXPECT_TRUE(of_regex[0].starts_with("SGLang scales wrongly 2 tensors")) << of_regex[0];
}

// It refuses Qwen's adapters, and those of a base that is not known may be Qwen's.
TEST(ServerRules, OllamaIsNamedForItsOwnFamiliesAlone) {
  model::ModelConfig qwen;
  qwen.family = model::Family::kQwen2;
  for (const model::ModelConfig* const base :
       std::initializer_list<const model::ModelConfig*>{&qwen, nullptr}) {
    for (const std::string& one : losses(lora_of(kQuery), {{"use_rslora", true}}, base))
      EXPECT_EQ(one.find("Ollama"), std::string::npos) << one;
  }
}

// What is refused is loud, and no line; nor is what is applied.
TEST(ServerRules, NoLineForAnAdapterThatIsAppliedOrRefused) {
  EXPECT_EQ(losses(lora_of(kQuery)), std::vector<std::string>());
  EXPECT_EQ(losses(lora_of("model.language_model.layers.0.self_attn.q_proj.")), std::vector<std::string>());
  EXPECT_EQ(losses(lora_of(kQuery), {{"r", 64}, {"target_modules", ".*q_proj"}}), std::vector<std::string>());
  EXPECT_EQ(losses(with({std::string(kQuery) + "lora_magnitude_vector"})), std::vector<std::string>());
}

TEST(ServerRules, WordsOfServers) {
  EXPECT_EQ(server_of_word("llama-server"), Server::kLlamaCpp);
  EXPECT_EQ(server_of_word("other"), Server::kOther);
  EXPECT_FALSE(server_of_word("tgi").has_value());
  EXPECT_EQ(server_name(Server::kOther), "another server");
}

}  // namespace server_rules_test
}  // namespace hone::adapters
