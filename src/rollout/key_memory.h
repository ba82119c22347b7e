// Where an engine's keys and values are: how much each request takes, who has to wait or to let go, and the tree of
// tiles that requests find of each other.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "model/causal_lm.h"
#include "rollout/kv_memory.h"
#include "rollout/sequence.h"

namespace hone::rollout {

class KeyMemory {
 public:
  KeyMemory(const model::CausalLm& model, const EngineOptions& options);

  // tree_end and own_from of a sequence whose prompt is all its tokens.
  void lay_out(Sequence& sequence) const;
  // UserError where a limit was given and the sequence with all its max_new_tokens takes more.
  void require_room(const Sequence& sequence) const;
  // Room for all that the sequence will need; its nodes are found or made. What is idle is let go for it, the longest
  // unused first: keys of those of `all` that are not in the batch, and of the tree. False: there is not enough, and
  // `must` is false.
  bool admit(Sequence& sequence, const Sequences& all, bool must);
  // It has ended: what it holds stays booked, what was for tokens to come does not.
  void settle(Sequence& sequence);
  void lose(Sequence& sequence);  // all its keys
  void lose_all(
      const Sequences& all);  // of those in the batch what was read, of the others and the tree everything
  // Before the first forward: a device that keeps all keys in one memory allocates that of the first that join at once.
  void reserve(const std::deque<Sequence*>& waiting);

  std::int64_t booked() const { return used_; }
  std::int64_t held(const Sequences& all) const;
  std::int64_t lost() const { return lost_; }

 private:
  struct Room {
    std::int64_t tiles = 0, states = 0;
  };
  std::int64_t bytes(const Room& room) const { return costs_.bytes(room.tiles, room.states); }
  Room own_room(const Sequence& sequence) const;
  Room prompt_room(const Sequence& sequence) const;
  std::int64_t whole_bytes(const Sequence& sequence) const;
  // The next node of the sequence, after `before`.
  std::shared_ptr<KeyNode> node(const Sequence& sequence, std::int64_t end, const Room& room,
                                const std::shared_ptr<KeyNode>& before);
  std::vector<std::shared_ptr<KeyNode>> found(const Sequence& sequence) const;
  void take_nodes(Sequence& sequence, std::vector<std::shared_ptr<KeyNode>> found);
  bool lose_oldest(const Sequences& all, const Sequence& but);

  const model::CausalLm& model_;
  const EngineOptions options_;
  const KvCosts costs_;
  const std::int64_t limit_;
  std::int64_t used_ = 0, lost_ = 0;
  std::uint64_t clock_ = 0;
  std::optional<model::ReservedKeys> reserved_;
  // Tiles by their adapter, the one before (null: none) and their tokens. One that is nobody's is only here.
  using TileKey = std::tuple<const ops::AdapterSides*, const KeyNode*, std::vector<std::int32_t>>;
  static TileKey key_of(const Sequence& sequence, const KeyNode* before, std::int64_t from);
  std::map<TileKey, std::shared_ptr<KeyNode>> tree_;
};

}  // namespace hone::rollout
