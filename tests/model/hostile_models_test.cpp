// Model folders and GGUF files that nobody means well, and the fuzz tests of what reads them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <bit>
#include <ctime>
#include <fstream>
#include <tuple>

#include "base/error.h"
#include "base/gguf/gguf.h"
#include "fuzz/mutate.h"
#include "model/causal_lm.h"
#include "model/config/planned_bytes.h"
#include "model/files/bnb_files.h"
#include "model/files/weight_source.h"
#include "model/gguf_writer.h"
#include "model/tiny_model.h"

namespace hone::model {
namespace hostile_models_test {

using namespace hone::test_tools;
using base::Json;

fs::path fixture(const std::string& name) {
  return fs::path(HONE_FIXTURES) / "parity" / name;
}

void put_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// ---- config.json

const char* const kNumbers[] = {
    "vocab_size",          "hidden_size",         "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim",          "max_position_embeddings",
    "rms_norm_eps",        "rope_theta",          "eos_token_id"};

TEST(HostileConfig, NumbersAtTheirLimits) {
  for (const char* key : kNumbers) {
    for (const char* value : {"1000000000", "2147483648", "4611686018427387904", "9223372036854775807",
                              "18446744073709551615", "-9223372036854775808", "0", "1e300", "1e-300"}) {
      Json json = tiny_config("llama");
      json[key] = Json::parse(value);
      try {
        const ModelConfig config = parse_model_config(json, "config.json");
        const std::int64_t bytes = planned_bytes(config, at::kBFloat16, at::kFloat);
        EXPECT_GT(bytes, 0) << key << " " << value;
      } catch (const base::UserError& error) {
        EXPECT_SAYS(std::string(error.what()), "config.json");
      }
    }
  }
}

TEST(HostileConfig, HeadsWhoseProductWraps) {
  Json json = tiny_config("llama");
  json.update(
      {{"num_attention_heads", std::int64_t{1} << 23}, {"num_key_value_heads", 1}, {"head_dim", 1 << 23}});
  EXPECT_SAYS(user_error([&] { parse_model_config(json, "c"); }), "columns of all heads");
  json = tiny_config("llama");
  json.update({{"num_attention_heads", std::int64_t{1} << 62}, {"num_key_value_heads", 1}, {"head_dim", 4}});
  EXPECT_SAYS(user_error([&] { parse_model_config(json, "c"); }), "num_attention_heads of at most");
  json = tiny_config("llama");
  json.update({{"hidden_size", 1 << 20}, {"intermediate_size", 1 << 24}, {"num_hidden_layers", 10000}});
  EXPECT_SAYS(user_error([&] { parse_model_config(json, "c"); }), "that fit in a machine's memory");
}

TEST(HostileConfig, DeepLongAndEndless) {
  const TempFolder folder;
  write_model(folder.path(), tiny_config("llama"));
  const fs::path config = folder.path() / "config.json";
  put_text(config, std::string(100'000, '['));
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "256 levels");
  Json json = tiny_config("llama");
  json["model_type"] = std::string(1'000'000, 'x');
  write_json(config, json);
  EXPECT_LT(user_error([&] { open_weights(folder.path()); }).size(), 5000U);
  json = tiny_config("llama");
  json["rope_scaling"] = Json::array();
  for (int i = 0; i < 100'000; ++i) json["rope_scaling"].push_back("some text");
  write_json(config, json);
  EXPECT_LT(user_error([&] { open_weights(folder.path()); }).size(), 5000U);
  fs::resize_file(config, 1U << 30U);  // a hole: no bytes on the disk
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "a file of at most");
  fs::remove(config);
  fs::create_symlink("/dev/zero", config);
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "a stream without an end");
}

TEST(HostileIndex, NamesOnlyFilesOfItsFolder) {
  const TempFolder folder;
  write_model(folder.path(), tiny_config("llama"));
  fs::remove(folder.path() / "model.safetensors");
  for (const Json& name : {Json("../../etc/passwd"), Json("/etc/passwd"), Json("config.json"), Json(""),
                           Json(".."), Json(std::string("/etc/passwd\0.safetensors", 24)),
                           Json(std::string("a\0.safetensors", 14)), Json(1), Json(nullptr), Json::array()}) {
    write_json(folder.path() / "model.safetensors.index.json",
               {{"weight_map", {{"model.norm.weight", name}}}});
    EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "a file of this folder") << name;
  }
  write_json(folder.path() / "model.safetensors.index.json",
             {{"weight_map", {{"model.norm.weight", "model.safetensors.index.json.safetensors"}}}});
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "no such file");
}

TEST(HostileIndex, ManyTensorsInLinearTime) {
  const TempFolder folder;
  write_json(folder.path() / "config.json", tiny_config("llama"));
  std::string map = "{\"weight_map\": {";
  for (int i = 0; i < 200'000; ++i)
    map += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) + "\":\"a.safetensors\"";
  put_text(folder.path() / "model.safetensors.index.json", map + "}}");
  write_tensors(folder.path() / "a.safetensors", {{"t0", at::zeros({1})}});
  const std::clock_t begin = std::clock();
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "the tensor t1 in a.safetensors");
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
}

// ---- bitsandbytes

const std::string kMatrix = "model.layers.0.mlp.down_proj.weight";
const std::string kStateOf = kMatrix + ".quant_state.bitsandbytes__nf4";

// The fixture with one tensor's bytes replaced.
class Quantized {
 public:
  explicit Quantized(const std::string& name)
      : source_(base::SafetensorsFile::open(fixture(name) / "model.safetensors")) {
    fs::copy(fixture(name) / "config.json", folder_.path() / "config.json");
  }
  std::string text_of(const std::string& tensor) const {
    const auto bytes = source_.find(tensor)->bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  const fs::path& with(const std::string& tensor, const std::string& text) const {
    std::vector<base::StoredTensor> all(source_.tensors().begin(), source_.tensors().end());
    for (base::StoredTensor& one : all) {
      if (one.name != tensor) continue;
      one.bytes = {reinterpret_cast<const std::byte*>(text.data()), text.size()};
      one.shape = {static_cast<std::int64_t>(text.size())};
    }
    base::write_safetensors(folder_.path() / "model.safetensors", all, {});
    return folder_.path();
  }
  // The file's header in place of its own, over the same data.
  const fs::path& with_header(const std::string& header) const {
    const std::string file = base::read_text(source_.path());
    std::string out;
    for (unsigned i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xFFU);
    put_text(folder_.path() / "model.safetensors", out + header + file.substr(8 + header_size(file)));
    return folder_.path();
  }
  std::string header() const {
    const std::string file = base::read_text(source_.path());
    return file.substr(8, header_size(file));
  }

 private:
  static std::size_t header_size(const std::string& file) {
    std::size_t size = 0;
    for (unsigned i = 0; i < 8; ++i)
      size |= static_cast<std::size_t>(static_cast<unsigned char>(file[i])) << (8 * i);
    return size;
  }
  base::SafetensorsFile source_;
  TempFolder folder_;
};

TEST(HostileBnb, StatesThatLie) {
  const Quantized model("tiny_llama_nf4");
  const Json good = Json::parse(model.text_of(kStateOf));
  const auto refused = [&](const Json& state) {
    return user_error([&] { CausalLm(*open_weights(model.with(kStateOf, base::dump_json(state))), {}); });
  };
  for (const char* key : {"blocksize", "nested_blocksize"}) {
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{63}, std::uint64_t{8192}, std::uint64_t{1} << 62,
          (std::uint64_t{1} << 63) - 1, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
      Json state = good;
      state[key] = value;
      EXPECT_SAYS(refused(state), key) << value;
    }
  }
  for (const Json& shape : {Json::array({0, 0}), Json::array({-64, -128}), Json::array({64, 127}),
                            Json::array({std::int64_t{1} << 32, std::int64_t{1} << 32}),
                            Json::array({std::int64_t{1} << 62, 4}), Json::array({64}), Json(nullptr)}) {
    Json state = good;
    state["shape"] = shape;
    EXPECT_SAYS(refused(state), "shape") << shape;
  }
  Json state = good;
  state["nested_offset"] = 1e300;
  EXPECT_SAYS(refused(state), "nested_offset");
  EXPECT_SAYS(user_error([&] { open_weights(model.with(kStateOf, std::string(100'000, '['))); }),
              "256 levels");
}

// ---- fuzzing

// Opened, and read to the last weight.
void load(const fs::path& path) {
  const CausalLm model(*open_weights(path), {});
  const at::NoGradGuard no_grad;
  (void)model.hidden(make_batch({{1, 2, 3}}), {});
}

void fuzz_config(double seconds) {
  const TempFolder folder;
  std::vector<std::string> corpus;
  for (const char* type : every_family()) corpus.push_back(base::dump_json(tiny_config(type)));
  Json scaled = tiny_config("llama");
  scaled["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  scaled.update({{"layer_types", {"full_attention", "full_attention"}}, {"sliding_window", nullptr}});
  corpus.push_back(base::dump_json(scaled));
  write_model(folder.path(), tiny_config("llama"));
  fuzz::run(fuzz::seconds(seconds), corpus, fuzz::mutated_json_text, [&](const std::string& text) {
    put_text(folder.path() / "config.json", text);
    load(folder.path());
  });
}

TEST(ModelFuzz, Config) {
  fuzz_config(2);
}
TEST(ModelFuzz, SlowConfig) {
  fuzz_config(60);
}

void fuzz_bnb(double seconds) {
  const Quantized nf4("tiny_llama_nf4"), int8("tiny_llama_int8");
  const std::vector<std::string> corpus = {nf4.text_of(kStateOf), nf4.header(), int8.header()};
  const auto mutated = [](const std::string& text, fuzz::Random& random) {
    return fuzz::mutated_json_text(text, random);
  };
  fuzz::run(fuzz::seconds(seconds), corpus, mutated, [&](const std::string& text) {
    // A header names its tensors; a state does not.
    const bool header = text.find("data_offsets") != std::string::npos;
    const bool eight = text.find("SCB") != std::string::npos;
    load(header ? (eight ? int8 : nf4).with_header(text) : nf4.with(kStateOf, text));
  });
}

TEST(ModelFuzz, Bnb) {
  fuzz_bnb(2);
}
TEST(ModelFuzz, SlowBnb) {
  fuzz_bnb(60);
}

// A GGUF's metadata as JSON, so that its structure can be mutated.
std::string gguf_of(const Json& metadata, const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::string head = "GGUF", data;
  const auto number = [&head](std::uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) head += static_cast<char>(value >> (8 * i) & 0xFFU);
  };
  const auto text = [&](const std::string& value) {
    number(value.size(), 8);
    head += value;
  };
  const auto scalar = [&](const Json& value, bool with_type) {
    const unsigned type = value.is_string()            ? 8
                          : value.is_number_float()    ? 12
                          : value.is_boolean()         ? 7
                          : value.is_number_unsigned() ? 10
                                                       : 11;
    if (with_type) number(type, 4);
    if (type == 8) return text(value.get<std::string>());
    if (type == 12) return number(std::bit_cast<std::uint64_t>(value.get<double>()), 8);
    if (type == 7) return number(value.get<bool>() ? 1 : 0, 1);
    number(value.is_number() ? value.get<std::uint64_t>() : 0, 8);
  };
  number(3, 4);
  number(tensors.size(), 8);
  const Json nothing = Json::object();
  const Json& all = metadata.is_object() ? metadata : nothing;
  number(all.size(), 8);
  for (const auto& [key, value] : all.items()) {
    text(key);
    if (!value.is_structured()) {
      scalar(value, true);
      continue;
    }
    number(9, 4);
    number(8, 4);
    number(value.size(), 8);
    for (const auto& item : value) text(item.is_string() ? item.get<std::string>() : base::dump_json(item));
  }
  for (const auto& [name, tensor] : tensors) {
    text(name);
    number(static_cast<std::uint64_t>(tensor.dim()), 4);
    for (std::int64_t d = tensor.dim() - 1; d >= 0; --d)
      number(static_cast<std::uint64_t>(tensor.size(d)), 8);
    number(0, 4);
    number(data.size(), 8);
    data.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    data.resize((data.size() + 31) / 32 * 32, '\0');
  }
  head.resize((head.size() + 31) / 32 * 32, '\0');
  return head + data;
}

Json gguf_metadata() {
  return {{"general.architecture", "llama"},  {"llama.embedding_length", 32U},
          {"llama.attention.head_count", 4U}, {"llama.attention.head_count_kv", 2U},
          {"llama.attention.key_length", 8U}, {"llama.rope.dimension_count", 8U},
          {"llama.rope.freq_base", 10000.0},  {"llama.rope.scaling.type", "linear"},
          {"llama.rope.scaling.factor", 2.0}, {"llama.attention.sliding_window", 0U},
          {"llama.context_length", 128U},     {"llama.feed_forward_length", 40U},
          {"llama.block_count", 2U},          {"llama.attention.layer_norm_rms_epsilon", 1e-5},
          {"tokenizer.ggml.eos_token_id", 2U}};
}

std::vector<std::pair<std::string, at::Tensor>> gguf_tensors(const std::vector<std::int64_t>& freqs) {
  std::vector<std::pair<std::string, at::Tensor>> out = {{"token_embd.weight", at::randn({48, 32})},
                                                         {"output_norm.weight", at::ones({32})},
                                                         {"output.weight", at::randn({48, 32})}};
  for (int layer = 0; layer < 2; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    for (const auto& [name, rows, columns] : {std::tuple{"attn_q", 32, 32},
                                              {"attn_k", 16, 32},
                                              {"attn_v", 16, 32},
                                              {"attn_output", 32, 32},
                                              {"ffn_gate", 40, 32},
                                              {"ffn_up", 40, 32},
                                              {"ffn_down", 32, 40}}) {
      out.emplace_back(block + name + ".weight", at::randn({rows, columns}));
    }
    for (const char* name : {"attn_norm", "ffn_norm"})
      out.emplace_back(block + name + ".weight", at::ones({32}));
  }
  if (!freqs.empty()) out.emplace_back("rope_freqs.weight", at::ones(freqs));
  return out;
}

TEST(HostileGguf, HeadDimensions) {
  const TempFolder folder;
  const fs::path path = folder.path() / "m.gguf";
  put_text(path, gguf_of(gguf_metadata(), gguf_tensors({})));
  load(path);
  for (const int head_dim : {0, 1, 7}) {
    Json metadata = gguf_metadata();
    metadata["llama.attention.key_length"] = static_cast<unsigned>(head_dim);
    metadata["llama.rope.dimension_count"] = static_cast<unsigned>(head_dim);
    put_text(path, gguf_of(metadata, gguf_tensors({head_dim / 2})));
    EXPECT_SAYS(user_error([&] { load(path); }), "even head dimension") << head_dim;
  }
  for (const char* key :
       {"llama.embedding_length", "llama.attention.head_count", "llama.attention.key_length",
        "llama.context_length", "llama.feed_forward_length", "llama.block_count"}) {
    for (const std::uint64_t value : {std::uint64_t{1} << 62, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
      Json metadata = gguf_metadata();
      metadata.erase("llama.rope.dimension_count");
      metadata[key] = value;
      put_text(path, gguf_of(metadata, gguf_tensors({})));
      EXPECT_SAYS(user_error([&] { load(path); }), "m.gguf") << key << " " << value;
    }
  }
}

void fuzz_gguf(double seconds) {
  const TempFolder folder;
  const fs::path path = folder.path() / "m.gguf";
  const auto plain = gguf_tensors({}), scaled = gguf_tensors({4});
  const std::vector<std::string> corpus = {base::dump_json(gguf_metadata())};
  const auto mutated = [](const std::string& text, fuzz::Random& random) {
    return base::dump_json(fuzz::mutated_json(Json::parse(text), random));
  };
  fuzz::run(fuzz::seconds(seconds), corpus, mutated, [&](const std::string& text) {
    put_text(path, gguf_of(Json::parse(text), text.size() % 2 == 0 ? plain : scaled));
    load(path);
  });
}

TEST(ModelFuzz, Gguf) {
  fuzz_gguf(2);
}
TEST(ModelFuzz, SlowGguf) {
  fuzz_gguf(60);
}

}  // namespace hostile_models_test
}  // namespace hone::model
