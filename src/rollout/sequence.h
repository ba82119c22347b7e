// A request inside the engine: its tokens, and where the keys and values of each of them are.
//
//   tokens   0 ......... tree_end ............ own_from ................ length()
//   keys of  tiles of the tree, 64 tokens each | the prompt's node | the sequence itself
//
// The tree's part is empty without share_prefixes, the prompt's without share_prompt. Where a part begins is a
// function of the request alone, since it decides bits: tiles begin at each part's start. (The tree's part ends at a
// tile's border, so that it decides none.)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "rollout/drafts.h"
#include "rollout/engine.h"

namespace hone::rollout {

// So many of the bytes of a KeyMemory, until this is gone.
class Booking {
 public:
  Booking() = default;
  Booking(std::int64_t* used, std::int64_t bytes) : used_(used), bytes_(bytes) { *used_ += bytes; }
  Booking(Booking&& other) noexcept
      : used_(std::exchange(other.used_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Booking& operator=(Booking&& other) noexcept {
    std::swap(used_, other.used_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Booking(const Booking&) = delete;
  Booking& operator=(const Booking&) = delete;
  ~Booking() {
    if (used_ != nullptr) *used_ -= bytes_;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t* used_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Keys and values of tokens [begin, end) that several sequences have, read in place. The tokens before them are in its
// cache's prefix.
struct KeyNode {
  std::int64_t begin = 0, end = 0;
  bool is_prompt = false;  // the end of a prompt; false: a tile of the tree
  model::KvCache cache;    // cache.length - begin of its tokens have been read
  at::Tensor hidden =
      {};  // [1, H] of a prompt's last token, once all is read: what first tokens are drawn from
  std::int64_t fed = 0;  // tokens of it in the forward that is being made
  // Whose keys these are; held, so that no other adapter gets its address while the tree knows it.
  std::shared_ptr<const ops::AdapterSides> adapter = {};
  std::uint64_t last_use = 0;
  Booking booking;

  bool is_read() const { return cache.length == end; }
  void forget_tokens() {
    cache.forget();
    cache.length = begin;
    hidden.reset();
    fed = 0;
  }
};

inline std::shared_ptr<const model::KvCache> prefix_of(const std::shared_ptr<KeyNode>& node) {
  return node ? std::shared_ptr<const model::KvCache>(node, &node->cache) : nullptr;
}

// The samples of one prompt.
struct PromptGroup {
  std::int64_t prompt = 0, size = 1;  // tokens, samples
  std::weak_ptr<KeyNode> node;
  std::shared_ptr<KeyNode> held;  // the same, while samples are to begin
  std::int64_t to_begin = 0;
  std::shared_ptr<DraftTexts> texts = {};    // what its samples have said; null until one guesses
  std::shared_ptr<const Texts> former = {};  // Request::former, until it is among `texts`
};

struct Sequence {
  RequestId id = 0;
  std::string where;
  std::vector<std::int32_t> ids;  // prompt, completion, what was appended, its completion, ...
  std::int64_t turn = 0;          // where the completion begins in ids
  std::int64_t turns = 0;         // completions before this one
  std::shared_ptr<const RequestOptions> options;
  std::shared_ptr<const ops::AdapterSides> adapter = {};
  DrawKey key;
  Completion completion;
  std::vector<std::int32_t> seen = {};  // distinct ids, sorted; kept only for a repetition penalty
  SequenceDraft draft = {};

  std::int64_t tree_end = 0, own_from = 0;
  bool share_prompt = false, share_prefixes = false;
  std::shared_ptr<PromptGroup> group;
  std::vector<std::shared_ptr<KeyNode>> nodes =
      {};                     // of the tokens before own_from, in order; while it has keys
  model::KvCache cache = {};  // of the others
  Booking booking = {};
  bool has_begun = false;  // has been in the batch
  bool is_live = false;    // is in it
  bool has_ended = false, has_new_token = false;
  std::int64_t reused = 0;
  std::uint64_t last_use = 0;

  // It begins, or never will.
  void leave_group() {
    if (!has_begun && --group->to_begin == 0) group->held.reset();
    has_begun = true;
  }
  std::int64_t length() const { return static_cast<std::int64_t>(ids.size()); }
  bool has_keys() const { return !nodes.empty() || !cache.layers.empty(); }
  // Its next token is drawn from its prompt's hidden state.
  bool begins() const {
    return share_prompt && !nodes.empty() && nodes.back()->hidden.defined() && cache.layers.empty() &&
           length() == own_from;
  }
};

using Sequences = std::map<RequestId, std::unique_ptr<Sequence>>;

}  // namespace hone::rollout
