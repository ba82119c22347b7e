#include "model/config/gguf_rotation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "model/config/config_fields.h"
#include "model/config/rotations.h"
#include "ops/rope.h"

namespace hone::model {
namespace {

using base::Json;
using base::UserError;

constexpr const char *kFreqs = "rope_freqs.weight", *kShort = "rope_factors_short.weight",
                     *kLong = "rope_factors_long.weight";
constexpr double kStill = 1e30;  // a divisor that leaves no rotation

// llama.cpp's own factor of cosine and sine with yarn, which rope.scaling.attn_factor multiplies.
double yarn_mscale(double factor) {
  return factor <= 1 ? 1 : 0.1 * std::log(factor) + 1;
}

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::abs(b);
}

std::vector<double> values_of(const base::GgufFile& file, const std::string& name, std::int64_t count) {
  const base::GgufTensor* const tensor = file.find(name);
  const std::string found = tensor == nullptr ? "none" : std::to_string(tensor->numel());
  if (tensor == nullptr || tensor->numel() != count) {
    throw UserError({file.path().string() + ": " + name, std::to_string(count) + " factors", found, "", ""});
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  base::dequantize(*tensor, values);
  return {values.begin(), values.end()};
}

// A share of the head that gives back `columns` when it is cut to a whole number.
double share_of(std::int64_t columns, std::int64_t head_dim) {
  double share = static_cast<double>(columns) / static_cast<double>(head_dim);
  while (static_cast<std::int64_t>(static_cast<double>(head_dim) * share) < columns)
    share = std::nextafter(share, 2.0);
  return share;
}

// llama.cpp stores, in rope_freqs.weight, what each frequency is divided by. All Llama 3.1 to 3.3 models use
// low 1, high 4 and 8192, so the largest divisor is `factor`; the guess is then checked against every entry.
Json llama3_scaling(const base::GgufFile& file, double theta, std::int64_t rotated) {
  const std::vector<double> divisors = values_of(file, kFreqs, rotated / 2);
  ops::Llama3Scaling guess;
  guess.factor = *std::max_element(divisors.begin(), divisors.end());
  const at::Tensor plain = ops::rope_inverse_frequencies(theta, rotated);
  const at::Tensor found = plain / at::tensor(divisors, at::kDouble).to(at::kFloat);
  const double error = (found / ops::rope_scale_llama3(plain, guess) - 1).abs().max().item<double>();
  if (!(error < 1e-4)) {
    throw UserError({file.path().string() + ": " + kFreqs,
                     "the frequency factors of a Llama 3 model (low 1, high 4, original length 8192)",
                     "factors that differ from them by " + std::to_string(error),
                     "a rope scaling that hone cannot recover from the file",
                     "use the model's Hugging Face folder"});
  }
  return {
      {"factor", guess.factor},
      {"high_freq_factor", guess.high_freq_factor},
      {"low_freq_factor", guess.low_freq_factor},
      {"original_max_position_embeddings", static_cast<std::int64_t>(guess.original_max_position_embeddings)},
      {"rope_type", "llama3"}};
}

Json longrope_scaling(const base::GgufFile& file, const std::string& key, std::int64_t rotated) {
  const auto list = [&](const char* name) {
    Json out = Json::array();
    for (const double one : values_of(file, name, rotated / 2)) out.push_back(as_written(one));
    return out;
  };
  return {{"rope_type", "longrope"},
          {"short_factor", list(kShort)},
          {"long_factor", list(kLong)},
          {"original_max_position_embeddings", file.require_int(key + "original_context_length")},
          {"attention_factor", as_written(file.float_or(key + "attn_factor", 1))}};
}

Json yarn_scaling(const base::GgufFile& file, const std::string& key) {
  const double factor = as_written(file.require_float(key + "factor"));
  Json out = {{"rope_type", "yarn"},
              {"factor", factor},
              {"original_max_position_embeddings", file.require_int(key + "original_context_length")}};
  for (const char* beta : {"beta_fast", "beta_slow"}) {
    const std::string stored = key + "yarn_" + beta;
    if (file.has(stored)) out[beta] = as_written(file.require_float(stored));
  }
  const double attention = file.float_or(key + "attn_factor", 1);
  if (attention != 1) out["attention_factor"] = as_written(attention * yarn_mscale(factor));
  return out;
}

// Gemma 4's layers without a window: frequencies that turn nothing are divided by 1e30.
Json proportional_scaling(const base::GgufFile& file, std::int64_t rotated) {
  const std::vector<double> divisors = values_of(file, kFreqs, rotated / 2);
  const auto still = [](double divisor) { return divisor >= kStill; };
  const auto first = std::find_if(divisors.begin(), divisors.end(), still);
  if (!std::all_of(divisors.begin(), first, [](double divisor) { return divisor == 1; }) ||
      !std::all_of(first, divisors.end(), still)) {
    throw UserError({file.path().string() + ": " + kFreqs, "factors 1, then 1e30", "others",
                     "a rope scaling that hone cannot recover from the file",
                     "use the model's Hugging Face folder"});
  }
  return {{"rope_type", "proportional"},
          {"partial_rotary_factor", share_of(2 * (first - divisors.begin()), rotated)}};
}

Json scaling_of(const base::GgufFile& file, const std::string& arch, double theta, std::int64_t rotated) {
  if (file.find(kFreqs) != nullptr && arch == "gemma4") return proportional_scaling(file, rotated);
  if (file.find(kFreqs) != nullptr) return llama3_scaling(file, theta, rotated);
  const std::string key = arch + ".rope.scaling.";
  if (file.find(kLong) != nullptr) return longrope_scaling(file, key, rotated);
  if (!file.has(key + "type")) return nullptr;
  const std::string type = file.require_string(key + "type");
  if (type == "none") return nullptr;
  if (type == "linear") return {{"rope_type", "linear"}, {"factor", file.require_float(key + "factor")}};
  if (type == "yarn") return yarn_scaling(file, key);
  throw UserError({file.path().string() + ": " + key + "type", "none, linear, yarn or longrope",
                   "'" + base::cut_text(type, 200) + "'", "hone does not have this rope scaling yet",
                   "use a model without it"});
}

void write_yarn(const ModelConfig& c, const std::string& key, std::vector<base::GgufEntry>& entries) {
  const YarnRope& yarn = *c.rope_yarn;
  if (!yarn.truncate) {
    throw UserError({"GGUF", "truncate true of yarn", "false", "llama.cpp has no key for it",
                     "keep the model's Hugging Face folder"});
  }
  entries.push_back({key + "type", std::string("yarn")});
  entries.push_back({key + "factor", static_cast<float>(yarn.factor)});
  entries.push_back(
      {key + "original_context_length", static_cast<std::uint32_t>(yarn.original_max_position_embeddings)});
  if (yarn.beta_fast != 32) entries.push_back({key + "yarn_beta_fast", static_cast<float>(yarn.beta_fast)});
  if (yarn.beta_slow != 1) entries.push_back({key + "yarn_beta_slow", static_cast<float>(yarn.beta_slow)});
  const double attention = c.rope_attention_factor / yarn_mscale(yarn.factor);
  const bool by_family =
      c.family == Family::kMinistral3;  // llama.cpp's architecture has a key of its own for it
  if (!by_family && !near(attention, 1))
    entries.push_back({key + "attn_factor", static_cast<float>(attention)});
}

void write_longrope(const ModelConfig& c, const std::string& key, std::vector<base::GgufEntry>& entries) {
  if (c.family != Family::kPhi3) {
    throw UserError({"GGUF", "longrope only in a phi3",
                     "longrope in a " + std::string(traits_of(c.family).model_type),
                     "llama.cpp reads its factors in no other architecture of hone's",
                     "keep the model's Hugging Face folder"});
  }
  entries.push_back({key + "type", std::string("longrope")});
  entries.push_back({key + "original_context_length",
                     static_cast<std::uint32_t>(c.rope_long->original_max_position_embeddings)});
  entries.push_back({key + "attn_factor", static_cast<float>(c.rope_attention_factor)});
}

}  // namespace

void write_gguf_rotation(const ModelConfig& c, std::vector<base::GgufEntry>& entries) {
  const std::string arch(traits_of(c.family).gguf_architecture), key = arch + ".rope.scaling.";
  entries.push_back({arch + ".rope.dimension_count", static_cast<std::uint32_t>(c.rotated())});
  entries.push_back({arch + ".rope.freq_base", static_cast<float>(c.rope_theta)});
  if (c.rope_linear_factor) {
    entries.push_back({key + "type", std::string("linear")});
    entries.push_back({key + "factor", static_cast<float>(*c.rope_linear_factor)});
  }
  if (c.rope_yarn) write_yarn(c, key, entries);
  if (c.rope_long) write_longrope(c, key, entries);
  if (c.rope_dynamic_from > 0) {
    throw UserError({"GGUF", "another rope_type than dynamic", "dynamic", "llama.cpp does not have it",
                     "keep the model's Hugging Face folder"});
  }
}

std::vector<std::pair<std::string, at::Tensor>> gguf_rotation_tensors(const ModelConfig& c) {
  if (c.rope_llama3) {
    const at::Tensor plain = ops::rope_inverse_frequencies(c.rope_theta, c.rotated());
    return {{kFreqs, (plain / main_frequencies(c)).contiguous()}};
  }
  if (c.rope_proportional) {
    at::Tensor divisors = at::ones({c.rotated() / 2}, at::kFloat);
    divisors.narrow(0, *c.rope_proportional, divisors.size(0) - *c.rope_proportional).fill_(kStill);
    return {{kFreqs, divisors}};
  }
  if (!c.rope_long) return {};
  const auto of = [](const std::vector<double>& factors) {
    return at::tensor(factors, at::kDouble).to(at::kFloat);
  };
  return {{kLong, of(c.rope_long->long_factor)}, {kShort, of(c.rope_long->short_factor)}};
}

bool is_gguf_rotation(const std::string& tensor) {
  return tensor == kFreqs || tensor == kShort || tensor == kLong;
}

void read_gguf_rotation(const base::GgufFile& file, const FamilyTraits& family, Json& json) {
  const std::string where = file.path().string(), arch(family.gguf_architecture);
  const auto head_dim = json.at("head_dim").get<std::int64_t>();
  const double theta = as_written(file.float_or(arch + ".rope.freq_base", 10000.0));
  if (!(theta > 0 && theta <= 1e30)) {
    throw UserError({where + ": " + arch + ".rope.freq_base", "a positive number", std::to_string(theta),
                     "the file is damaged", ""});
  }
  if (head_dim <= 0 || head_dim % 2 != 0) {  // before the frequencies are made
    throw UserError({where + ": " + arch + ".attention.key_length", "a positive, even head dimension",
                     std::to_string(head_dim), "the file is damaged", ""});
  }
  const std::string key = arch + ".rope.dimension_count";
  const std::int64_t rotated = file.int_or(key, head_dim);
  const bool in_part = family.rotates_parts && rotated > 0 && rotated < head_dim && rotated % 2 == 0;
  if (rotated != head_dim && !in_part) {
    throw UserError({where + ": " + key,
                     (family.rotates_parts ? "at most the head dimension " : "the head dimension ") +
                         std::to_string(head_dim),
                     std::to_string(rotated), "models of this family do not rotate so many columns", ""});
  }
  if (in_part) json["partial_rotary_factor"] = share_of(rotated, head_dim);
  json["rope_theta"] = theta;
  json["rope_scaling"] = scaling_of(file, arch, theta, rotated);
  // Phi3Config has a length of its own beside rope_scaling, which comes first
  if (file.find(kLong) != nullptr)
    json["original_max_position_embeddings"] = json["rope_scaling"]["original_max_position_embeddings"];
}

}  // namespace hone::model
