// A step of a sampler over keys and values in pages: where its new tokens go, and which pages each of them reads. All layers have the
// same lists, which are made once.
//
// While each sequence has one new token, the lists are kept and stay in one place on the device. The next step of the same sequences
// changes numbers in them; they are made again where a part of attention is full, or a sequence joins or leaves.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/attention.h"
#include "ops/sampling/head_rotation.h"
#include "ops/sampling/key_pages.h"

namespace hone::ops {

// Tokens [begin, end) of a step are the next ones of a sequence, the first at `position`: it has all of `before`, in order, then `own`.
struct PageRows {
  std::int64_t begin = 0, end = 0, position = 0;
  std::vector<const PageRun*> before = {};
  PageRun* own = nullptr;
};

class PageStep {
 public:
  explicit PageStep(KeyPages& pages);  // which must outlive it
  ~PageStep();
  PageStep(const PageStep&) = delete;
  PageStep& operator=(const PageStep&) = delete;

  // The rows of a step cover its tokens in order. Each `own` gets its new tokens, and drops what it has after `position`; append() has
  // their keys. After an exception some have them and others not.
  void begin(std::span<const PageRows> rows);

  bool has(std::int64_t layer) const { return pages_.has(layer); }

  // Says whether each row has one token. Then positions() are those of all tokens, [T] fp32 on the device, and what the layers put on the
  // device from then on depends on form() and on tensors whose place stays: equal forms are equal work on other numbers.
  bool is_listed() const;
  const at::Tensor& positions() const;
  std::vector<std::int64_t> form() const;

  // The new tokens' keys and values in a layer. append_rotated() takes qkv [T, N + 2 K, D], which has a row's heads side by side:
  // queries are normed and rotated in place, keys only in their pages. False: there is no kernel for it, and nothing was written.
  bool append_rotated(std::int64_t layer, const at::Tensor& qkv, const HeadRotation& rotation);
  void append(std::int64_t layer, const at::Tensor& k, const at::Tensor& v);  // [T, K, D], rows strided

  // Attention of all tokens to what they see in a layer, as attend_tiles() has it. Tokens that are alone read their pages in place.
  // Pieces of prompts in bf16 are FlashAttention-2's, over a dense copy of what they see.
  // q [T, N, D], out [T, N * D], rows strided; no window and no soft cap.
  void attend(std::int64_t layer, const at::Tensor& out, const at::Tensor& q, const AttentionRule& rule);

 private:
  class Lists;
  KeyPages& pages_;
  std::unique_ptr<Lists> lists_;
};

}  // namespace hone::ops
