// Every benchmark opens one of these: a model folder, or shapes with random weights that need no file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/arguments.h"
#include "data/records/record.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"

namespace hone::bench {

// Options that all programs know: model, shapes, layers, threads, json, instructions (with a value); quick (a
// flag).
std::vector<std::string> with_common(std::vector<std::string> more);
std::vector<std::string> common_flags(std::vector<std::string> more = {});
// Sets threads and forces --instructions for the rest of the process.
void prepare_process(const Arguments& arguments);

// --model FOLDER, or --shapes q05b (Qwen2.5-0.5B's, the default) or smollm2, with --layers N of them
// (--quick: 2).
std::unique_ptr<model::WeightSource> open_source(const Arguments& arguments);
std::string name_of(const Arguments& arguments);

// bf16 stored and multiplied.
// `base`: empty (bf16), nf4, int8, or blocks (a GGUF's linears stay in its blocks).
model::CausalLm open_model(const model::WeightSource& source, model::Storage storage,
                           const std::string& base = "");

// Segments of the given lengths, of which the last scored_each tokens are targets; with `prompt` after a
// segment of so many tokens that all of them have as prefix.
data::Batch make_batch(const model::ModelConfig& config, const std::vector<std::int64_t>& lengths,
                       std::int64_t scored_each, std::int64_t prompt = 0);
// `count` token ids that look like text to a cache: spread over the vocabulary, the same each time.
std::vector<std::int64_t> some_ids(const model::ModelConfig& config, std::int64_t count,
                                   std::int64_t first = 0);

}  // namespace hone::bench
