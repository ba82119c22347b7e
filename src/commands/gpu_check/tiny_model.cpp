#include "commands/gpu_check/tiny_model.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <span>
#include <vector>

#include "base/files/safetensors.h"
#include "base/half.h"
#include "base/json.h"
#include "base/rng.h"

namespace hone::commands {

namespace {

using base::Json;
using base::TensorHeader;

// GPT-2's byte-level letters: printable bytes are themselves, the others follow U+0100.
std::vector<std::string> byte_letters() {
  std::vector<std::string> out;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int point = plain ? byte : next++;
    std::string letter;
    if (point < 0x80) {
      letter = static_cast<char>(point);
    } else {
      letter += static_cast<char>(0xC0 | (point >> 6));
      letter += static_cast<char>(0x80 | (point & 0x3F));
    }
    out.push_back(letter);
  }
  return out;
}

constexpr int kFirstByte = 3;  // after the three special tokens
constexpr const char* kSpecial[] = {"<|pad|>", "<|bos|>", "<|end|>"};

Json tokenizer() {
  Json added = Json::array(), vocabulary = Json::object();
  for (int id = 0; id < kFirstByte; ++id) {
    added.push_back({{"id", id},
                     {"content", kSpecial[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    vocabulary[kSpecial[id]] = id;
  }
  int id = kFirstByte;
  for (const std::string& letter : byte_letters()) vocabulary[letter] = id++;
  const Json level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", level},
          {"post_processor", nullptr},
          {"decoder", level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary},
            {"merges", Json::array()}}}};
}

Json config(const MadeShape& s) {
  return {{"architectures", {"Qwen2ForCausalLM"}},
          {"model_type", "qwen2"},
          {"bos_token_id", 1},
          {"eos_token_id", 2},
          {"pad_token_id", 0},
          {"attention_dropout", 0.0},
          {"hidden_act", "silu"},
          {"hidden_size", s.hidden},
          {"initializer_range", 0.02},
          {"intermediate_size", s.inner},
          {"max_position_embeddings", 32768},
          {"max_window_layers", s.layers},
          {"num_attention_heads", s.heads},
          {"num_hidden_layers", s.layers},
          {"num_key_value_heads", s.kv_heads},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},
          {"sliding_window", nullptr},
          {"tie_word_embeddings", true},
          {"torch_dtype", s.bf16 ? "bfloat16" : "float32"},
          {"use_cache", true},
          {"use_sliding_window", false},
          {"vocab_size", s.vocabulary}};
}

std::vector<TensorHeader> tensors(const MadeShape& s) {
  const base::DType dtype = s.bf16 ? base::DType::kBF16 : base::DType::kF32;
  std::vector<TensorHeader> out;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    out.push_back({name, dtype, std::move(shape)});
  };
  const std::int64_t head = s.hidden / s.heads, key = s.kv_heads * head;
  add("model.embed_tokens.weight", {s.vocabulary, s.hidden});
  add("model.norm.weight", {s.hidden});
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm.weight", {s.hidden});
    add(layer + "post_attention_layernorm.weight", {s.hidden});
    for (const auto& [name, rows] : {std::pair("q_proj", s.hidden), {"k_proj", key}, {"v_proj", key}}) {
      add(layer + "self_attn." + name + ".weight", {rows, s.hidden});
      add(layer + "self_attn." + name + ".bias", {rows});
    }
    add(layer + "self_attn.o_proj.weight", {s.hidden, s.hidden});
    add(layer + "mlp.gate_proj.weight", {s.inner, s.hidden});
    add(layer + "mlp.up_proj.weight", {s.inner, s.hidden});
    add(layer + "mlp.down_proj.weight", {s.hidden, s.inner});
  }
  return out;
}

std::int64_t count(const TensorHeader& tensor) {
  std::int64_t out = 1;
  for (const std::int64_t size : tensor.shape) out *= size;
  return out;
}

// Norms near 1, the rest of a size that keeps the stream's. fp32.
std::vector<float> values_of(const TensorHeader& tensor, std::uint64_t seed) {
  const bool norm = tensor.name.find("norm") != std::string::npos;
  const double size = norm ? 0.05 : tensor.shape.size() == 1 ? 0.1 : 1.7 / std::sqrt(double(tensor.shape[1]));
  std::vector<float> out(static_cast<std::size_t>(count(tensor)));
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint64_t x = (seed << 40) + i * 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ULL;
    x ^= x >> 32;
    const double unit = static_cast<double>(x & 0xFFFFFF) / 0x800000 - 1.0;
    out[i] = static_cast<float>((norm ? 1 : 0) + unit * size);
  }
  return out;
}

// A header, and then a hole as long as the numbers.
void write_zeros(const base::fs::path& file, const std::vector<TensorHeader>& all) {
  std::string header = "{";
  std::int64_t end = 0;
  for (const TensorHeader& one : all) {
    const std::int64_t bytes = 2 * count(one);
    const Json entry = {{"dtype", "BF16"}, {"shape", one.shape}, {"data_offsets", {end, end + bytes}}};
    header += (header.size() > 1 ? "," : "") + base::dump_json(one.name) + ":" + base::dump_json(entry);
    end += bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(&length), sizeof length)
      .write(header.data(), static_cast<std::streamsize>(header.size()));
  base::fs::resize_file(file, sizeof length + length + static_cast<std::uint64_t>(end));
}

void write_values(const base::fs::path& file, const std::vector<TensorHeader>& all) {
  base::write_safetensors(file, all, {{"format", "pt"}}, [&](std::size_t i, const base::TakeBytes& take) {
    const std::vector<float> values = values_of(all[i], i + 1);
    take(std::as_bytes(std::span(values)));
  });
}

std::string words(std::uint64_t seed, int count) {
  constexpr const char* kWords[] = {"the", "cat",  "sat", "on",  "a",  "mat",
                                    "and", "then", "it",  "ran", "to", "old"};
  std::string out;
  for (int i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    out += (out.empty() ? "" : " ") + std::string(kWords[(seed >> 33) % std::size(kWords)]);
  }
  return out;
}

}  // namespace

base::fs::path make_model(const base::fs::path& folder, const MadeShape& shape) {
  if (base::fs::exists(folder / "config.json")) return folder;
  base::fs::create_directories(folder);
  if (shape.zeros) {
    write_zeros(folder / "model.safetensors", tensors(shape));
  } else {
    write_values(folder / "model.safetensors", tensors(shape));
  }
  base::write_file_atomic(folder / "tokenizer.json", base::dump_json(tokenizer()));
  const Json words = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                      {"bos_token", kSpecial[1]},
                      {"eos_token", kSpecial[2]},
                      {"pad_token", kSpecial[0]},
                      {"clean_up_tokenization_spaces", false}};
  base::write_file_atomic(folder / "tokenizer_config.json", base::dump_json(words));
  base::write_file_atomic(folder / "config.json", base::dump_json(config(shape)));
  return folder;
}

void make_rows(const base::fs::path& folder) {
  if (base::fs::exists(folder / "long.jsonl")) return;
  constexpr int kRows = 24;
  std::string texts, pairs, prompts, longs;
  for (std::uint64_t i = 1; i <= kRows; ++i) {
    const std::string prompt = words(i, 4 + static_cast<int>(i % 5)) + "?";
    texts += base::dump_json({{"text", words(i + 100, 6 + static_cast<int>(i % 9))}}) + "\n";
    pairs += base::dump_json({{"prompt", prompt},
                              {"chosen", " " + words(i + 200, 5)},
                              {"rejected", " " + words(i + 300, 3 + static_cast<int>(i % 4))}}) +
             "\n";
    prompts += base::dump_json({{"prompt", prompt}}) + "\n";
    longs += base::dump_json({{"text", words(i + 400, 1000)}}) + "\n";
  }
  base::write_file_atomic(folder / "texts.jsonl", texts);
  base::write_file_atomic(folder / "pairs.jsonl", pairs);
  base::write_file_atomic(folder / "prompts.jsonl", prompts);
  base::write_file_atomic(folder / "long.jsonl", longs);
}

}  // namespace hone::commands
