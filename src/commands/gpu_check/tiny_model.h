// Models that need no download: random weights from a fixed seed, a tokenizer of bytes, rows to train on.
#pragma once

#include <cstdint>
#include <string>

#include "base/files/file.h"

namespace hone::commands {

// Qwen2's shapes, as transformers names them.
struct MadeShape {
  std::int64_t hidden = 64, layers = 2, heads = 4, kv_heads = 2, inner = 96, vocabulary = 320;
  bool bf16 = false;
  bool zeros = false;  // a file with a hole, which takes no room: for what is filled on the device
};

constexpr MadeShape kTinyShape = {};
// The shapes are those of Qwen2.5 0.5B and 1.5B, and of Qwen3-8B without the norms of its heads.
constexpr MadeShape kHalfBillion = {.hidden = 896,
                                    .layers = 24,
                                    .heads = 14,
                                    .kv_heads = 2,
                                    .inner = 4864,
                                    .vocabulary = 151936,
                                    .bf16 = true,
                                    .zeros = true};
constexpr MadeShape kOneAndAHalfBillion = {.hidden = 1536,
                                           .layers = 28,
                                           .heads = 12,
                                           .kv_heads = 2,
                                           .inner = 8960,
                                           .vocabulary = 151936,
                                           .bf16 = true,
                                           .zeros = true};
constexpr MadeShape kEightBillion = {.hidden = 4096,
                                     .layers = 36,
                                     .heads = 32,
                                     .kv_heads = 8,
                                     .inner = 12288,
                                     .vocabulary = 151936,
                                     .bf16 = true,
                                     .zeros = true};

// Writes a model's folder, unless it is there; returns it.
base::fs::path make_model(const base::fs::path& folder, const MadeShape& shape);

// texts.jsonl, pairs.jsonl and prompts.jsonl in `folder`, unless they are there, and long.jsonl with rows of about 4,000
// tokens.
void make_rows(const base::fs::path& folder);

}  // namespace hone::commands
