#include "bench/open.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/files/file.h"
#include "base/process/instruction_level.h"
#include "model/config/families.h"
#include "ops/machine/host_memory.h"

namespace hone::bench {

namespace {

using base::Json;

// Only what is needed for the shapes of Qwen2.5-0.5B and SmolLM2-135M.
Json named_shapes(const std::string& name) {
  if (name == "q05b") {
    return {{"model_type", "qwen2"},     {"vocab_size", 151936},        {"hidden_size", 896},
            {"intermediate_size", 4864}, {"num_hidden_layers", 24},     {"num_attention_heads", 14},
            {"num_key_value_heads", 2},  {"rms_norm_eps", 1e-6},        {"rope_theta", 1e6},
            {"hidden_act", "silu"},      {"tie_word_embeddings", true}, {"max_position_embeddings", 32768}};
  }
  if (name == "smollm2") {
    return {{"model_type", "llama"},     {"vocab_size", 49152},         {"hidden_size", 576},
            {"intermediate_size", 1536}, {"num_hidden_layers", 30},     {"num_attention_heads", 9},
            {"num_key_value_heads", 3},  {"rms_norm_eps", 1e-5},        {"rope_theta", 1e5},
            {"hidden_act", "silu"},      {"tie_word_embeddings", true}, {"max_position_embeddings", 8192}};
  }
  throw base::UserError({.where = "--shapes", .expected = "q05b or smollm2", .found = name});
}

// Weights as a new model has them, without a file: one stretch of normal numbers, repeated.
class RandomWeights final : public model::WeightSource {
 public:
  explicit RandomWeights(const Json& json, const std::string& name)
      : config_(model::parse_model_config(json, name)), path_(name) {
    for (const model::TensorSpec& spec : model::expected_tensors(config_)) shapes_[spec.name] = spec.shape;
    at::Generator generator = at::detail::createCPUGenerator(0);
    stretch_ = at::randn({kStretch}, generator).mul_(0.02).to(at::kBFloat16);
  }

  const model::ModelConfig& config() const override { return config_; }
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const auto& [name, shape] : shapes_) out.push_back(name);
    return out;
  }
  bool has(const std::string& name) const override { return shapes_.contains(name); }
  std::vector<std::int64_t> shape(const std::string& name) const override { return shapes_.at(name); }
  void read_into(const std::string& name, at::Tensor out) const override {
    if (name.find("norm") != std::string::npos) {
      out.fill_(1);
      return;
    }
    const at::Tensor flat = out.view(-1);
    for (std::int64_t begin = 0; begin < flat.numel(); begin += kStretch) {
      const std::int64_t size = std::min(kStretch, flat.numel() - begin);
      flat.narrow(0, begin, size).copy_(stretch_.narrow(0, 0, size));
    }
  }
  at::ScalarType stored_dtype(const std::string&) const override { return at::kBFloat16; }
  bool is_gguf() const override { return false; }
  const base::fs::path& path() const override { return path_; }

 private:
  static constexpr std::int64_t kStretch = (1 << 20) + 7;  // no row begins where another does
  model::ModelConfig config_;
  base::fs::path path_;
  std::unordered_map<std::string, std::vector<std::int64_t>> shapes_;
  at::Tensor stretch_;
};

base::InstructionLevel level_of(const std::string& name) {
  for (const base::InstructionLevel level : base::kInstructionLevels) {
    if (name == base::name_of(level)) return level;
  }
  std::string all;
  for (const base::InstructionLevel level : base::kInstructionLevels)
    all += std::string(" ") + base::name_of(level);
  throw base::UserError({.where = "--instructions", .expected = "one of" + all, .found = name});
}

}  // namespace

std::vector<std::string> with_common(std::vector<std::string> more) {
  more.insert(more.end(), {"model", "shapes", "layers", "threads", "json", "instructions"});
  return more;
}

std::vector<std::string> common_flags(std::vector<std::string> more) {
  more.emplace_back("quick");
  return more;
}

void prepare_process(const Arguments& arguments) {
  at::set_num_threads(static_cast<int>(arguments.number("threads", 2)));
  static std::optional<base::ForceInstructionLevel> forced;
  if (arguments.flag("instructions")) forced.emplace(level_of(arguments.text("instructions", "")));
}

std::string name_of(const Arguments& arguments) {
  if (!arguments.flag("model")) return arguments.text("shapes", "q05b") + ", random weights";
  return std::filesystem::path(arguments.text("model", "")).lexically_normal().filename().string();
}

std::unique_ptr<model::WeightSource> open_source(const Arguments& arguments) {
  if (arguments.flag("model")) return model::open_weights(arguments.text("model", ""));
  const std::string name = arguments.text("shapes", "q05b");
  Json shapes = named_shapes(name);
  if (arguments.flag("layers") || arguments.flag("quick"))
    shapes["num_hidden_layers"] = arguments.number("layers", 2);
  return std::make_unique<RandomWeights>(shapes, name);
}

model::CausalLm open_model(const model::WeightSource& source, model::Storage storage,
                           const std::string& base) {
  ops::use_host_memory();  // as the program does
  model::Quantize quantize;
  if (base == "nf4") quantize = ops::QuantScheme{.type = ops::QuantType::kNf4};
  if (base == "int8") quantize = ops::QuantScheme{.type = ops::QuantType::kInt8};
  if (!base.empty() && base != "blocks" && !quantize)
    throw hone::base::UserError({.where = "--base", .expected = "nf4, int8 or blocks", .found = base});
  return {source,          {.linear = at::kBFloat16, .residual = at::kBFloat16}, storage, quantize, at::kCPU,
          base == "blocks"};
}

std::vector<std::int64_t> some_ids(const model::ModelConfig& config, std::int64_t count, std::int64_t first) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    out[static_cast<std::size_t>(i)] = (first + i) * 7919 % config.vocab_size;
  return out;
}

data::Batch make_batch(const model::ModelConfig& config, const std::vector<std::int64_t>& lengths,
                       std::int64_t scored_each, std::int64_t prompt) {
  data::Batch out;
  const auto add = [&](std::int64_t length, std::int64_t scored, std::int64_t first, std::int64_t prefix) {
    const auto begin = static_cast<std::int64_t>(out.ids.size());
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t id = (begin + i) * 7919 % config.vocab_size;
      out.ids.push_back(id);
      out.positions.push_back(first + i);
      out.labels.push_back(i >= length - scored ? id : data::kIgnore);
    }
    const auto row = static_cast<std::int64_t>(out.segments.size());
    out.segments.push_back({begin, begin + length, row, prefix});
  };
  if (prompt > 0) add(prompt, 0, 0, data::kNoPrefix);
  for (const std::int64_t length : lengths)
    add(length, scored_each, prompt, prompt > 0 ? 0 : data::kNoPrefix);
  return out;
}

}  // namespace hone::bench
