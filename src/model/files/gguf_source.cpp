// A GGUF file under Hugging Face's names: dequantized, or in its blocks, and Q and K rows put back in transformers' order.
#include <ATen/ATen.h>

#include <deque>
#include <map>
#include <set>

#include "base/error.h"
#include "base/process/process_memory.h"
#include "model/config/families.h"
#include "model/config/gguf_rotation.h"
#include "model/files/gguf_tensors.h"
#include "model/files/stored_bytes.h"
#include "model/files/weight_source.h"
#include "ops/kept_ggml.h"
#include "ops/machine/device_memory.h"

namespace hone::model {
namespace {

// llama.cpp interleaves the halves of each rotary pair: rows (h, i, j) of [heads, D/2, 2] were (h, j, i).
at::Tensor unpermute_rows(const at::Tensor& w, std::int64_t heads) {
  const std::int64_t half = w.size(0) / heads / 2;
  return w.reshape({heads, half, 2, -1}).transpose(1, 2).reshape(w.sizes()).contiguous();
}

// Which row of the file is row i of unpermute_rows().
std::vector<std::int64_t> rows_in_file(std::int64_t rows, std::int64_t heads) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(rows));
  const std::int64_t size = rows / heads, half = size / 2;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t head = row / size, in_head = row % size;
    all[static_cast<std::size_t>(row)] = head * size + in_head % half * 2 + in_head / half;
  }
  return all;
}

// The same of order_value_heads().
std::vector<std::int64_t> rows_in_file(std::int64_t rows, const ValueHeads& heads) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row - heads.first, head = at / heads.width, key = head / heads.per_key;
    const std::int64_t there = head % heads.per_key * heads.key_heads + key;
    all[static_cast<std::size_t>(row)] = at < 0 ? row : heads.first + there * heads.width + at % heads.width;
  }
  return all;
}

class GgufSource final : public WeightSource {
 public:
  explicit GgufSource(const base::fs::path& path) : file_(base::GgufFile::open(path)) {
    config_ = model_config_from_gguf(file_);
    std::map<std::string, TensorSpec> by_gguf_name;
    std::map<std::string, std::vector<TensorSpec>> experts;
    std::set<std::string> joined;  // GGUF's names
    for (TensorSpec& spec : expected_tensors(config_)) {
      if (!spec.gguf_second.empty() && join(spec)) {
        joined.insert({spec.gguf_name, spec.gguf_second});
      } else if (spec.expert >= 0) {
        experts[spec.gguf_name].push_back(std::move(spec));
      } else {
        by_gguf_name[spec.gguf_name] = std::move(spec);
      }
    }
    for (const base::GgufTensor& t : file_.tensors()) {
      if (is_gguf_rotation(t.name) || joined.contains(t.name)) continue;  // the first became rope_scaling
      if (const auto stack = experts.find(t.name); stack != experts.end() && add_experts(t, stack->second))
        continue;
      const auto it = by_gguf_name.find(t.name);
      if (it == by_gguf_name.end()) {
        tensors_[t.name] = {&t};  // kept under its own name: CausalLm says that it has no place
      } else {
        const TensorSpec& spec = it->second;
        tensors_[spec.name] = {&t, spec.permuted_heads, spec.gguf_adds_one};
        Entry& entry = tensors_[spec.name];
        if (t.shape == spec.gguf_shape) entry.shape = spec.shape;
        entry.is_decay = spec.gguf_is_decay;
        if (entry.sizes() == spec.shape && spec.gguf_heads.per_key > 1) entry.heads = spec.gguf_heads;
      }
    }
  }

  const ModelConfig& config() const override { return config_; }
  bool has(const std::string& name) const override { return tensors_.contains(name); }
  std::vector<std::int64_t> shape(const std::string& name) const override { return find(name).sizes(); }
  bool is_gguf() const override { return true; }
  const base::fs::path& path() const override { return file_.path(); }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, entry] : tensors_) all.push_back(name);
    return all;
  }

  at::ScalarType stored_dtype(const std::string& name) const override {
    switch (find(name).tensor->type) {
      case base::GgmlType::kF16:
        return at::kHalf;
      case base::GgmlType::kBF16:
        return at::kBFloat16;
      default:
        return at::kFloat;
    }
  }

  void read_into(const std::string& name, at::Tensor out) const override {
    const Entry& entry = find(name);
    base::require(out.sizes() == entry.sizes() && out.is_contiguous() && ops::is_host(out.device()),
                  "WeightSource::read_into", "a contiguous tensor of the stored shape");
    check_heads(entry);
    const bool direct = entry.permuted_heads == 0 && !entry.adds_one && !entry.is_decay &&
                        entry.heads.key_heads == 0 && out.scalar_type() == at::kFloat;
    const at::Tensor w = direct ? out : at::empty(entry.sizes(), at::kFloat);
    float* to = w.data_ptr<float>();
    for (const base::GgufTensor* const tensor : {entry.tensor, entry.second}) {
      if (tensor == nullptr) continue;
      const auto numbers = static_cast<std::size_t>(tensor->numel());
      base::dequantize(*tensor, {to, numbers});
      base::release_pages(tensor->bytes);
      to += numbers;
    }
    if (entry.adds_one) w.sub_(1);
    if (entry.is_decay) w.neg_().log_();
    if (direct) return;
    const at::Tensor ordered = order_value_heads(w, entry.heads, /*to_gguf=*/false);
    out.copy_(entry.permuted_heads == 0 ? ordered : unpermute_rows(ordered, entry.permuted_heads));
  }

  std::optional<ops::QuantScheme> blocks(const std::string& name, at::ScalarType compute) const override {
    const Entry& entry = find(name);
    const base::GgufTensor& tensor = *entry.tensor;
    if (entry.heads.columns) return std::nullopt;  // blocks lie along a row
    if (tensor.shape.size() != 2 || (entry.second != nullptr && entry.second->type != tensor.type))
      return std::nullopt;
    return ops::kept_ggml_scheme(tensor.type, entry.sizes()[0], tensor.shape[1], compute);
  }

  ops::Quantized read_blocks(const std::string& name) const override {
    const Entry& entry = find(name);
    check_heads(entry);
    const base::GgufTensor& tensor = *entry.tensor;
    std::vector<std::int64_t> rows;
    if (entry.permuted_heads != 0) rows = rows_in_file(tensor.shape[0], entry.permuted_heads);
    if (entry.heads.key_heads > 0) rows = rows_in_file(tensor.shape[0], entry.heads);
    if (entry.second != nullptr) return read_joined(entry);
    ops::Quantized kept = ops::keep_ggml(tensor.type, tensor.bytes, tensor.shape[0], tensor.shape[1], rows);
    base::release_pages(tensor.bytes);
    return kept;
  }

 private:
  struct Entry {
    const base::GgufTensor* tensor = nullptr;
    std::int64_t permuted_heads = 0;
    bool adds_one = false;  // the file has 1 + w
    bool is_decay = false;  // ... -exp(w)
    ValueHeads heads = {};
    std::vector<std::int64_t> shape = {};      // where it is not the file's
    const base::GgufTensor* second = nullptr;  // has the lower half of the rows

    const std::vector<std::int64_t>& sizes() const { return shape.empty() ? tensor->shape : shape; }
  };

  // A matrix whose halves the file has under two names; false: it has not.
  bool join(const TensorSpec& spec) {
    const base::GgufTensor *const first = file_.find(spec.gguf_name), *const second =
                                                                          file_.find(spec.gguf_second);
    if (first == nullptr || second == nullptr || first->shape.size() != 2 || first->shape != second->shape)
      return false;
    Entry& entry = tensors_[spec.name] = {first};
    entry.shape = {2 * first->shape[0], first->shape[1]};
    entry.second = second;
    return true;
  }

  static ops::Quantized read_joined(const Entry& entry) {
    std::vector<std::byte> bytes(entry.tensor->bytes.begin(), entry.tensor->bytes.end());
    bytes.insert(bytes.end(), entry.second->bytes.begin(), entry.second->bytes.end());
    ops::Quantized kept = ops::keep_ggml(entry.tensor->type, bytes, entry.shape[0], entry.shape[1]);
    base::release_pages(entry.tensor->bytes);
    base::release_pages(entry.second->bytes);
    return kept;
  }

  // [experts, out, in] as so many matrices; false: it has another shape.
  bool add_experts(const base::GgufTensor& stack, const std::vector<TensorSpec>& experts) {
    if (stack.shape.size() != 3 || stack.shape[0] != static_cast<std::int64_t>(experts.size())) return false;
    const std::size_t bytes = stack.bytes.size() / experts.size();
    for (const TensorSpec& spec : experts) {
      base::GgufTensor& one = experts_.emplace_back(stack);
      one.name = spec.gguf_name;
      one.shape = {stack.shape[1], stack.shape[2]};
      one.bytes = stack.bytes.subspan(static_cast<std::size_t>(spec.expert) * bytes, bytes);
      tensors_[spec.name] = {&one};
    }
    return true;
  }

  void check_heads(const Entry& entry) const {
    const std::int64_t heads = entry.permuted_heads;
    if (heads == 0 || entry.tensor->shape[0] % (2 * heads) == 0) return;
    throw base::UserError({file_.path().string() + ": " + entry.tensor->name,
                           "rows for " + std::to_string(heads) + " heads of even size",
                           std::to_string(entry.tensor->shape[0]) + " rows",
                           "the metadata belong to another model", ""});
  }

  const Entry& find(const std::string& name) const {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) throw_absent_tensor(file_.path().string(), name, names());
    return it->second;
  }

  base::GgufFile file_;
  ModelConfig config_;
  std::deque<base::GgufTensor> experts_;  // of stacked tensors
  std::map<std::string, Entry> tensors_;  // under Hugging Face's names
};

}  // namespace

std::unique_ptr<WeightSource> open_gguf(const base::fs::path& file) {
  return std::make_unique<GgufSource>(file);
}

}  // namespace hone::model
