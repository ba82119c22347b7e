// Writes hone's logits for tests/parity/check, which compares them with transformers' and PEFT's.
//
//   dump_logits MODEL [--adapter FOLDER] --ids FILE.json --out FILE.safetensors
//
// MODEL: a Hugging Face folder or a .gguf. FILE.json: [[id, ...], ...]. The output holds, for sequence n of T
// tokens, ids_n [T] i64 and logits_n [T, V] f32: fp32 mode, adapter on, dropout off, each sequence alone.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <deque>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "adapters/lora.h"
#include "adapters/saved_vocabulary.h"
#include "base/error.h"
#include "base/files/safetensors.h"
#include "base/json.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"

namespace hone {
namespace {

constexpr const char* kUsage =
    "usage: dump_logits MODEL [--adapter FOLDER] --ids FILE.json --out FILE.safetensors\n";

data::Batch whole_sequence(const std::vector<std::int64_t>& ids) {
  data::Batch out;
  out.ids = ids;
  out.labels.assign(ids.size(), data::kIgnore);
  for (std::size_t t = 0; t < ids.size(); ++t) out.positions.push_back(static_cast<std::int64_t>(t));
  out.segments.push_back({.begin = 0, .end = static_cast<std::int64_t>(ids.size()), .row = 0});
  return out;
}

base::StoredTensor stored(const std::string& name, base::DType dtype, const at::Tensor& tensor) {
  return {.name = name,
          .dtype = dtype,
          .shape = tensor.sizes().vec(),
          .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

void dump(const std::string& model_path, const std::string& adapter_path, const std::string& ids_path,
          const std::string& out) {
  const at::NoGradGuard no_grad;
  at::set_num_threads(1);
  std::vector<base::fs::path> folders;
  if (!adapter_path.empty()) folders.emplace_back(adapter_path);
  model::CausalLm model(*adapters::open_base(model_path, folders), {});
  std::optional<adapters::Adapter> adapter;
  if (!adapter_path.empty()) adapter = adapters::Adapter::load(model, adapter_path);
  const base::Json sequences = base::parse_json(base::read_text(ids_path), ids_path);
  std::deque<at::Tensor> kept;  // what the entries' bytes point into
  std::vector<base::StoredTensor> entries;
  for (std::size_t n = 0; n < sequences.size(); ++n) {
    const auto ids = sequences.at(n).get<std::vector<std::int64_t>>();
    kept.push_back(at::tensor(ids, at::kLong));
    entries.push_back(stored("ids_" + std::to_string(n), base::DType::kI64, kept.back()));
    kept.push_back(model.logits(model.hidden(whole_sequence(ids), {})).contiguous());
    entries.push_back(stored("logits_" + std::to_string(n), base::DType::kF32, kept.back()));
  }
  base::write_safetensors(out, entries, {{"format", "pt"}});
}

int run(std::span<char*> words) {
  std::map<std::string, std::string> options;
  for (std::size_t i = 2; i + 1 < words.size(); i += 2) options[words[i]] = words[i + 1];
  if (words.size() % 2 != 0 || words.size() < 6 || !options.contains("--ids") || !options.contains("--out")) {
    std::cerr << kUsage;
    return 2;
  }
  try {
    dump(words[1], options["--adapter"], options["--ids"], options["--out"]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "dump_logits: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  return hone::run({argv, static_cast<std::size_t>(argc)});
}
