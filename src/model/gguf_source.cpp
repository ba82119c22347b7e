// A GGUF file under Hugging Face's names: dequantized, or in its blocks, and Q and K rows put back in transformers' order.
#include <ATen/ATen.h>

#include <deque>
#include <map>

#include "base/error.h"
#include "base/process_memory.h"
#include "model/families.h"
#include "model/gguf_rotation.h"
#include "model/stored_bytes.h"
#include "model/weight_source.h"
#include "ops/ggml_panels.h"

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

class GgufSource final : public WeightSource {
 public:
  explicit GgufSource(const base::fs::path& path) : file_(base::GgufFile::open(path)) {
    config_ = model_config_from_gguf(file_);
    std::map<std::string, TensorSpec> by_gguf_name;
    std::map<std::string, std::vector<TensorSpec>> experts;
    for (TensorSpec& spec : expected_tensors(config_)) {
      if (spec.expert >= 0) {
        experts[spec.gguf_name].push_back(std::move(spec));
      } else {
        by_gguf_name[spec.gguf_name] = std::move(spec);
      }
    }
    for (const base::GgufTensor& t : file_.tensors()) {
      if (is_gguf_rotation(t.name)) continue;  // became rope_scaling
      if (const auto stack = experts.find(t.name); stack != experts.end() && add_experts(t, stack->second))
        continue;
      const auto it = by_gguf_name.find(t.name);
      if (it == by_gguf_name.end()) {
        tensors_[t.name] = {&t};  // kept under its own name: CausalLm says that it has no place
      } else {
        const TensorSpec& spec = it->second;
        tensors_[spec.name] = {&t, spec.permuted_heads, spec.gguf_adds_one};
        if (t.shape == spec.gguf_shape) tensors_[spec.name].shape = spec.shape;
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
    base::require(out.sizes() == entry.sizes() && out.is_contiguous() && out.is_cpu(),
                  "WeightSource::read_into", "a contiguous tensor of the stored shape");
    check_heads(entry);
    const bool direct = entry.permuted_heads == 0 && !entry.adds_one && out.scalar_type() == at::kFloat;
    const at::Tensor w = direct ? out : at::empty(entry.sizes(), at::kFloat);
    base::dequantize(*entry.tensor, {w.data_ptr<float>(), static_cast<std::size_t>(w.numel())});
    base::release_pages(entry.tensor->bytes);
    if (entry.adds_one) w.sub_(1);
    if (!direct) out.copy_(entry.permuted_heads == 0 ? w : unpermute_rows(w, entry.permuted_heads));
  }

  std::optional<ops::QuantScheme> blocks(const std::string& name, at::ScalarType compute) const override {
    const base::GgufTensor& tensor = *find(name).tensor;
    if (tensor.shape.size() != 2) return std::nullopt;
    return ops::kept_ggml_scheme(tensor.type, tensor.shape[0], tensor.shape[1], compute);
  }

  ops::Quantized read_blocks(const std::string& name) const override {
    const Entry& entry = find(name);
    check_heads(entry);
    const base::GgufTensor& tensor = *entry.tensor;
    std::vector<std::int64_t> rows;
    if (entry.permuted_heads != 0) rows = rows_in_file(tensor.shape[0], entry.permuted_heads);
    ops::Quantized kept = ops::keep_ggml(tensor.type, tensor.bytes, tensor.shape[0], tensor.shape[1], rows);
    base::release_pages(tensor.bytes);
    return kept;
  }

 private:
  struct Entry {
    const base::GgufTensor* tensor = nullptr;
    std::int64_t permuted_heads = 0;
    bool adds_one = false;                 // the file has 1 + w
    std::vector<std::int64_t> shape = {};  // where it is not the file's

    const std::vector<std::int64_t>& sizes() const { return shape.empty() ? tensor->shape : shape; }
  };

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
