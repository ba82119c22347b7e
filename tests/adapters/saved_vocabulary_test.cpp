// Adapters whose file has the embedding of a changed vocabulary, as PEFT saves it, and files that are a state
// dict. Files that PEFT itself wrote: tests/parity/check_vocabulary.py.
#include "adapters/saved_vocabulary.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "adapters/adapter_file.h"
#include "adapters/config_keys.h"
#include "adapters/merge.h"
#include "model/files/vocabulary_source.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace saved_vocabulary_test {

using namespace hone::test_tools;
using base::Json;

constexpr const char* kEmbedding = "base_model.model.model.embed_tokens.weight";
constexpr const char* kHead = "base_model.model.lm_head.weight";

LoraConfig lora(std::vector<std::string> targets = {"q_proj"}) {
  LoraConfig out;
  out.r = 4;
  out.target_modules = std::move(targets);
  return out;
}

struct Setting {
  explicit Setting(bool tied) {
    Json config = tiny_config("llama");
    config["tie_word_embeddings"] = tied;
    write_model(base(), config);
  }
  fs::path base() const { return folder.path() / "base"; }
  fs::path adapter(const std::string& name = "adapter") const { return folder.path() / name; }

  // An adapter of the base, moved, with `more` tensors in its file.
  void write(const LoraConfig& config, std::map<std::string, at::Tensor> more,
             const std::string& name = "adapter") const {
    const auto source = model::open_weights(base());
    model::CausalLm model(*source, model::DtypePolicy{});
    const Adapter made = Adapter::attach(model, config, 1);
    const at::NoGradGuard no_grad;
    made.flat().add_(at::sin(at::arange(made.flat().numel(), at::kFloat)), 0.1);
    for (const TrainableTensor& tensor : made.tensors()) more.emplace(tensor.name, tensor.value.detach());
    std::erase_if(more, [](const auto& one) { return !one.second.defined(); });
    fs::create_directories(adapter(name));
    write_adapter(adapter(name), made.config(), more);
  }

  std::unique_ptr<model::WeightSource> open() const { return open_base(base(), {adapter()}); }

  at::Tensor logits(const model::WeightSource& source, bool with_adapter = true) const {
    model::CausalLm model(source, model::DtypePolicy{});
    std::optional<Adapter> loaded;
    if (with_adapter) loaded.emplace(Adapter::load(model, adapter()));
    const at::NoGradGuard no_grad;
    const std::int64_t last = source.config().vocab_size - 1;
    return model.logits(model.hidden(make_batch({{5, 9, last, 9, 30}}), {}), {});
  }

  TempFolder folder;
};

at::Tensor rows(std::int64_t count, double from) {
  return at::sin(at::arange(count * 32, at::kFloat) * 0.37 + from).view({count, 32}) * 0.2;
}

TEST(PeftKey, StateDictsAreReadAsWhatTheyStandFor) {
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj";
  const std::map<std::string, std::string> expected = {
      {q + ".lora_A.weight", q + ".lora_A.weight"},
      {q + ".lora_A.default.weight", q + ".lora_A.weight"},
      {q + ".lora_B.my-run_2.weight", q + ".lora_B.weight"},
      {"module." + q + ".lora_B.weight", q + ".lora_B.weight"},
      {"_orig_mod." + q + ".lora_B.weight", q + ".lora_B.weight"},
      {"module._orig_mod." + q + ".lora_B.default.weight", q + ".lora_B.weight"},
      {"base_model.model.model.layers.0._fsdp_wrapped_module._checkpoint_wrapped_module.self_attn.q_proj.lora_A.weight",
       q + ".lora_A.weight"},
      {"model.layers.0.self_attn.q_proj.lora_A.weight", q + ".lora_A.weight"},
      {"base_model.model." + q + ".lora_A.weight", q + ".lora_A.weight"},
      {q + ".lora_magnitude_vector", q + ".lora_magnitude_vector"},
      {q + ".lora_magnitude_vector.weight", q + ".lora_magnitude_vector"},
      {q + ".lora_magnitude_vector.default.weight", q + ".lora_magnitude_vector"},
      {"base_model.model.lm_head.modules_to_save.default.weight",
       "base_model.model.lm_head.modules_to_save.weight"},
      {"lm_head.weight", kHead},
      {"base_model.model.model.embed_tokens.lora_embedding_A.default",
       "base_model.model.model.embed_tokens.lora_embedding_A"},
      {"base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta.default",
       "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"},
      {"", "base_model.model."},
      {"module", "base_model.model"},
  };
  for (const auto& [key, peft] : expected) EXPECT_EQ(peft_key(key), peft) << key;
  std::string name;
  peft_key(q + ".lora_B.second.weight", &name);
  EXPECT_EQ(name, "second");
}

TEST(AdapterFile, StateDictsOfOneAdapterAreRead) {
  Setting s(false);
  s.write(lora(), {});
  const at::Tensor expected = s.logits(*s.open());
  std::map<std::string, at::Tensor> named;
  const AdapterFile file(s.adapter());
  for (const auto& [key, stored] : file.tensors()) {
    std::string other = "module." + key;
    other.insert(other.rfind(".weight"), ".default");
    named[other] = file.read(*stored);
  }
  write_adapter(s.adapter(), lora(), named);
  EXPECT_EQ(largest_difference(s.logits(*s.open()), expected), 0);
  named[named.begin()->first.substr(7)] = named.begin()->second;
  write_adapter(s.adapter(), lora(), named);
  EXPECT_SAYS(user_error([&] { s.logits(*s.open()); }), "one tensor of");
  named.erase(named.begin()->first);
  named["base_model.model.model.layers.0.self_attn.q_proj.lora_A.second.weight"] = at::zeros({4, 32});
  write_adapter(s.adapter(), lora(), named);
  EXPECT_SAYS(user_error([&] { s.logits(*s.open()); }), "'second' and 'default'");
  s.write(lora(), {{"base_model.model.model.layers.0.self_attn.q_proj.lora_C.weight", at::zeros({4, 32})}});
  EXPECT_SAYS(user_error([&] { s.logits(*s.open()); }), "lora_C.weight");
}

// The rows of the file are the model's, in what is loaded, merged and saved again.
void expect_rows(const Setting& s, const at::Tensor& embedding, const at::Tensor& head) {
  std::vector<std::string> notes;
  const auto source = open_base(s.base(), {s.adapter()}, &notes);
  const std::int64_t count = embedding.size(0);
  EXPECT_EQ(source->config().vocab_size, count);
  EXPECT_EQ(source->config().json.at("vocab_size"), count);
  EXPECT_EQ(notes.size(), 1U);
  EXPECT_EQ(largest_difference(source->read("model.embed_tokens.weight", at::kFloat), embedding), 0);
  const at::Tensor logits = s.logits(*source);
  EXPECT_EQ(logits.size(1), count);
  if (head.defined()) {
    EXPECT_EQ(largest_difference(source->read("lm_head.weight", at::kFloat), head), 0);
  }
  merge_to_folder(s.base(), {s.adapter()}, s.folder.path() / "merged");
  const auto merged = model::open_weights(s.folder.path() / "merged");
  EXPECT_EQ(merged->config().vocab_size, count);
  EXPECT_LT(largest_difference(s.logits(*merged, /*with_adapter=*/false), logits), 1e-5);
  fs::remove_all(s.folder.path() / "merged");
  model::CausalLm model(*source, model::DtypePolicy{});
  Adapter again = Adapter::load(model, s.adapter());
  again.set_vocabulary(*source);
  again.save(s.adapter());
  EXPECT_EQ(largest_difference(s.logits(*s.open()), logits), 0);
}

TEST(SavedVocabulary, AddedRowsAreUsed) {
  Setting apart(false);
  apart.write(lora(), {{kEmbedding, rows(50, 0)}, {kHead, rows(50, 1)}});
  expect_rows(apart, rows(50, 0), rows(50, 1));
  Setting tied(true);
  tied.write(lora(), {{kEmbedding, rows(51, 0)}, {kHead, rows(51, 0)}});
  expect_rows(tied, rows(51, 0), {});
  tied.write(lora(), {{kEmbedding, rows(52, 0)}});
  expect_rows(tied, rows(52, 0), {});
  EXPECT_TRUE(tied.open()->config().tie_word_embeddings);
}

TEST(SavedVocabulary, FewerRowsAreUsed) {
  Setting s(false);
  s.write(lora(), {{kEmbedding, rows(40, 0)}, {kHead, rows(40, 1)}});
  expect_rows(s, rows(40, 0), rows(40, 1));
}

TEST(SavedVocabulary, OtherRowsOfTheSameNumberAreUsed) {
  Setting s(false);
  s.write(lora(), {{kEmbedding, rows(48, 0)}, {kHead, rows(48, 1)}});
  expect_rows(s, rows(48, 0), rows(48, 1));
  const auto base = model::open_weights(s.base());
  s.write(lora(), {{kEmbedding, base->read("model.embed_tokens.weight", at::kFloat)}});
  EXPECT_TRUE(s.open()->replaced().empty()) << "a copy of the base's is the base";
}

// PEFT's keys beside each of what may be trained of the embedding.
TEST(SavedVocabulary, KeysBesideWhatIsTrained) {
  Setting s(false);
  const std::string at = "base_model.model.model.embed_tokens";
  LoraConfig adapted = lora({"q_proj", "embed_tokens"});
  s.write(adapted, {{at + ".base_layer.weight", rows(50, 0)},
                    {kHead, rows(50, 1)},
                    {at + ".lora_embedding_A", rows(50, 2).t().slice(0, 0, 4).contiguous()}});
  expect_rows(s, rows(50, 0), rows(50, 1));
  LoraConfig tokens = lora();
  tokens.token_indices = {7, 3};
  s.write(tokens, {{at + ".token_adapter.base_layer.weight", rows(50, 0)}, {kHead, rows(50, 1)}});
  expect_rows(s, rows(50, 0), rows(50, 1));
  LoraConfig whole = lora();
  whole.modules_to_save = {"embed_tokens", "lm_head"};
  s.write(whole, {{at + ".original_module.weight", rows(50, 0)},
                  {at + ".modules_to_save.weight", rows(50, 2)},
                  {kEmbedding, rows(50, 2)},
                  {"base_model.model.lm_head.original_module.weight", rows(50, 1)},
                  {kHead, rows(50, 3)}});
  expect_rows(s, rows(50, 0), rows(50, 1));
  s.write(whole, {{at + ".modules_to_save.default.weight", rows(50, 2)},
                  {kEmbedding, at::Tensor()},
                  {kHead, rows(50, 3)}});
  EXPECT_EQ(s.open()->config().vocab_size, 50);
  EXPECT_EQ(s.logits(*s.open()).size(1), 50);
}

TEST(SavedVocabulary, RowsOfATiedHeadAreThoseOfTheEmbedding) {
  Setting s(true);
  LoraConfig tokens = lora();
  tokens.token_indices = {7, 3};
  const std::string at = "base_model.model.model.embed_tokens.token_adapter.";
  const std::string head = "base_model.model.lm_head.token_adapter.";
  std::map<std::string, at::Tensor> tensors = {{at + "base_layer.weight", rows(50, 0)},
                                               {head + "base_layer.weight", rows(50, 0)},
                                               {at + "trainable_tokens_delta", rows(2, 5)},
                                               {head + "trainable_tokens_delta", rows(2, 5)}};
  s.write(tokens, tensors);
  expect_rows(s, rows(50, 0), {});
  tensors[head + "trainable_tokens_delta"] = rows(2, 6);
  s.write(tokens, tensors);
  EXPECT_SAYS(user_error([&] { s.logits(*s.open()); }), "to which the head is tied");
}

// A tokenizer of `tokens`, of which those from `own` on are added ones.
void write_tokenizer(const fs::path& folder, const std::vector<std::string>& tokens, std::size_t own = 2) {
  Json vocab = Json::object(), added = Json::array();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (id < own) {
      vocab[tokens[id]] = id;
    } else {
      added.push_back({{"id", id},
                       {"content", tokens[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    }
  }
  base::write_file_atomic(
      folder / "tokenizer.json",
      base::dump_json({{"version", "1.0"},
                       {"added_tokens", added},
                       {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}}));
}

// Tokens in rows that the base has and does not use: nothing of the embedding is saved.
TEST(SavedVocabulary, TheTokenizerOfSpareRowsIsTheAdapters) {
  Setting s(false);
  LoraConfig tokens = lora();
  tokens.token_indices = {3};
  for (const LoraConfig& config : {lora(), tokens}) {
    s.write(config, {});
    write_tokenizer(s.base(), {"a", "b", "<x>"});
    write_tokenizer(s.adapter(), {"a", "b", "<x>", "<new>"});
    std::vector<std::string> notes;
    const auto source = open_base(s.base(), {s.adapter()}, &notes);
    EXPECT_EQ(source->tokenizer_path(), s.adapter());
    EXPECT_EQ(source->config().vocab_size, 48);
    EXPECT_TRUE(source->replaced().empty());
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_SAYS(notes[0], "lacks 1 token of it (<new>)");
    EXPECT_EQ(largest_difference(s.logits(*source), s.logits(*model::open_weights(s.base()))), 0);
    merge_to_folder(s.base(), {s.adapter()}, s.folder.path() / "merged");
    EXPECT_SAYS(base::read_text(s.folder.path() / "merged" / "tokenizer.json"), "<new>");
    fs::remove_all(s.folder.path() / "merged");
  }
}

TEST(SavedVocabulary, TheBasesTokenizerStaysWhereNothingIsNew) {
  Setting s(false);
  s.write(lora(), {});
  write_tokenizer(s.base(), {"a", "b", "<x>"});
  write_tokenizer(s.adapter(), {"a", "b", "<x>"});
  EXPECT_EQ(s.open()->tokenizer_path(), s.base());
  // Python saves the same tokenizer in other bytes, and tokens of other files in tokenizer.json.
  write_tokenizer(s.adapter(), {"a", "b", "<x>", "<y>"}, 1);
  for (const auto& [file, text] : std::map<std::string, std::string>{
           {"added_tokens.json", R"({"<y>": 3})"},
           {"tokenizer_config.json", R"({"added_tokens_decoder": {"3": {"content": "<y>"}}})"}}) {
    base::write_file_atomic(s.base() / file, text);
    EXPECT_EQ(s.open()->tokenizer_path(), s.base()) << file;
    fs::remove(s.base() / file);
  }
  EXPECT_EQ(s.open()->tokenizer_path(), s.adapter());
  // A token that the model has no row for.
  std::vector<std::string> many = {"a", "b"};
  for (int i = 2; i < 49; ++i) many.push_back("<" + std::to_string(i) + ">");
  write_tokenizer(s.adapter(), many);
  std::vector<std::string> notes;
  EXPECT_EQ(open_base(s.base(), {s.adapter()}, &notes)->tokenizer_path(), s.base());
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_SAYS(notes[0], "its tokenizer is not used");
  EXPECT_SAYS(notes[0], "47 tokens of it (<2>, ...)");
}

TEST(SavedVocabulary, SaysWhatIsMissing) {
  Setting s(false);
  s.write(lora(), {{kEmbedding, rows(50, 0)}});
  const std::string only_one = user_error([&] { s.open(); });
  EXPECT_SAYS(only_one, "the 2 added rows of lm_head.weight too");
  EXPECT_SAYS(only_one, "extended from 48 to 50 tokens");
  EXPECT_SAYS(user_error([&] {
                model::CausalLm model(*model::open_weights(s.base()), model::DtypePolicy{});
                Adapter::load(model, s.adapter());
              }),
              "the vocabulary was changed");
  Setting tied(true);
  tied.write(lora(), {{kEmbedding, rows(50, 0)}, {kHead, rows(50, 1)}});
  EXPECT_SAYS(user_error([&] { tied.open(); }), "which config.json ties");
  tied.write(lora(), {{kEmbedding, rows(50, 0)}}, "a");
  tied.write(lora(), {{kEmbedding, rows(50, 1)}}, "b");
  EXPECT_SAYS(user_error([&] { open_base(tied.base(), {tied.adapter("a"), tied.adapter("b")}); }),
              "the embedding of the adapter before it");
  EXPECT_EQ(open_base(tied.base(), {tied.adapter("a"), tied.adapter("a")})->config().vocab_size, 50);
}

TEST(VocabularySource, RowsThatNobodyGivesAreTheMean) {
  Setting s(false);
  const model::VocabularySource source(model::open_weights(s.base()), 53, {});
  const auto base = model::open_weights(s.base());
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    const at::Tensor own = base->read(name, at::kFloat), all = source.read(name, at::kFloat);
    EXPECT_EQ(largest_difference(all.narrow(0, 0, 48), own), 0);
    const at::Tensor mean = own.to(at::kDouble).mean(0).to(at::kFloat).expand({5, 32});
    EXPECT_LT(largest_difference(all.narrow(0, 48, 5), mean), 1e-7);
    EXPECT_EQ(source.shape(name), (std::vector<std::int64_t>{53, 32}));
  }
  EXPECT_EQ(source.replaced().size(), 2U);
  EXPECT_EQ(largest_difference(source.read("model.norm.weight", at::kFloat),
                               base->read("model.norm.weight", at::kFloat)),
            0);
}

TEST(AdapterConfigKeys, EveryKeyOfPeftHasARow) {
  const Json written = config_to_json(lora());
  EXPECT_TRUE(adapter_config_keys().unmarked(written).empty());
  Json json = written;
  for (const base::ReadKey& key : adapter_config_keys().keys()) {
    if (key.use == base::KeyUse::kApplied) continue;
    EXPECT_FALSE(key.why.empty()) << key.name;
    json[std::string(key.name)] = {{"some", "value"}};
    const std::string said = user_error([&] { config_from_json(json, "f"); });
    if (key.use == base::KeyUse::kRefused) {
      EXPECT_SAYS(said, std::string(key.name));
    } else {
      EXPECT_EQ(said, "") << key.name;
    }
    json[std::string(key.name)] = written.value(std::string(key.name), Json(nullptr));
  }
  json["of_a_newer_peft"] = 1;
  EXPECT_SAYS(user_error([&] { config_from_json(json, "f"); }), "f: of_a_newer_peft");
}

}  // namespace saved_vocabulary_test
}  // namespace hone::adapters
