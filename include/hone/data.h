// Rows as the model is trained on them: tokens, and what is to be predicted after each.
//
//   std::vector<hone::Example> rows = hone::read_examples(model, "train.jsonl");
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/model.h"

namespace hone {

// One sequence. Position i of `tokens` predicts targets[i], so that both have as many elements, N, and a text
// of T tokens has N = T - 1. A loss (loss.h) says which of the other lists it reads; those have N elements
// too.
struct Example {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<float> weights;     // of each target in the loss; 0: not trained
  std::vector<float> logprobs;    // of the targets when they were sampled
  std::vector<float> advantages;  // of the targets
};

struct ReadOptions {
  std::int64_t max_length = 1024;  // tokens that are kept of a row; 0: all
  // Only what the assistant says is trained; the chat template has to mark it.
  bool assistant_only_loss = false;
};

// Reads JSONL, JSON, CSV, Parquet's and other forms of rows that `hone sft` reads (`text`, `prompt` and
// `completion`, `messages`), with the same tokens and targets. UserError, with the line, for a row that does
// not fit, and if no token is left to train on.
std::vector<Example> read_examples(const Model& model, const std::string& path,
                                   const ReadOptions& options = {});

// A prompt and its completion, by tokens: the completion's have weight 1. UserError if either is empty.
Example make_example(const std::vector<std::int32_t>& prompt, const std::vector<std::int32_t>& completion);

}  // namespace hone
