#include "model/files/vocabulary_source.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "model/config/families.h"

namespace hone::model {
namespace {

// In the order of the rows, whatever the threads.
at::Tensor mean_of_rows(const at::Tensor& rows) {
  const std::int64_t count = rows.size(0), width = rows.size(1);
  std::vector<double> sums(static_cast<std::size_t>(width), 0);
  constexpr std::int64_t kAtOnce = 4096;
  for (std::int64_t begin = 0; begin < count; begin += kAtOnce) {
    const at::Tensor some =
        rows.narrow(0, begin, std::min(kAtOnce, count - begin)).to(at::kFloat).contiguous();
    const float* value = some.const_data_ptr<float>();
    for (std::int64_t row = 0; row < some.size(0); ++row) {
      for (double& sum : sums) sum += *value++;
    }
  }
  at::Tensor out = at::empty({width}, at::kFloat);
  for (std::size_t i = 0; i < sums.size(); ++i)
    out.mutable_data_ptr<float>()[i] = static_cast<float>(sums[i] / static_cast<double>(count));
  return out;
}

}  // namespace

VocabularySource::VocabularySource(std::unique_ptr<WeightSource> base, std::int64_t rows,
                                   std::map<std::string, at::Tensor> values, base::fs::path tokenizer)
    : base_(std::move(base)),
      config_(base_->config()),
      values_(std::move(values)),
      tokenizer_(std::move(tokenizer)) {
  if (config_.per_layer_width > 0 && rows > config_.per_layer_vocab) {
    throw base::UserError(
        {path().string(), "a model whose vocabulary can be extended",
         "one whose layers look tokens up in a table of their own (vocab_size_per_layer_input " +
             std::to_string(config_.per_layer_vocab) + ")",
         "an added token would have no row there", "use tokens of the vocabulary, of which some are unused"});
  }
  const TensorNames& names = names_of(config_);
  const std::string embedding = std::string(names.embedding.hf) + ".weight";
  const std::string head = std::string(names.head.hf) + ".weight";
  const bool resized = rows != config_.vocab_size;
  if (resized || values_.contains(embedding)) replaced_.push_back(embedding);
  if (!config_.tie_word_embeddings && base_->has(head) && (resized || values_.contains(head)))
    replaced_.push_back(head);
  config_.vocab_size = rows;
  base::Json& json = config_.wrapped ? config_.json.at("text_config") : config_.json;
  json["vocab_size"] = rows;
  for (const auto& [name, value] : values_) {
    base::require(value.dim() == 2 && value.size(0) == rows && value.size(1) == config_.hidden_size,
                  "VocabularySource", "matrices of the vocabulary");
  }
}

bool VocabularySource::is_replaced(const std::string& name) const {
  return std::find(replaced_.begin(), replaced_.end(), name) != replaced_.end();
}

std::vector<std::int64_t> VocabularySource::shape(const std::string& name) const {
  std::vector<std::int64_t> out = base_->shape(name);
  // a tied head, which nobody reads, too
  if (out.size() == 2 && (is_replaced(name) || name == std::string(names_of(config_).head.hf) + ".weight"))
    out[0] = config_.vocab_size;
  return out;
}

void VocabularySource::read_rows(const std::string& name, const at::Tensor& out) const {
  const std::int64_t stored = base_->shape(name)[0], rows = out.size(0);
  if (rows <= stored) {
    out.copy_(base_->read(name, out.scalar_type()).narrow(0, 0, rows));
    return;
  }
  base_->read_into(name, out.narrow(0, 0, stored));
  const at::Tensor exact = out.scalar_type() == at::kFloat ? out.narrow(0, 0, stored)
                                                           : base_->read(name, base_->stored_dtype(name));
  out.narrow(0, stored, rows - stored).copy_(mean_of_rows(exact));
}

void VocabularySource::read_into(const std::string& name, at::Tensor out) const {
  if (!is_replaced(name)) return base_->read_into(name, std::move(out));
  const auto given = values_.find(name);
  if (given == values_.end()) return read_rows(name, out);
  out.copy_(given->second);
}

}  // namespace hone::model
