#include "rollout/key_memory.h"

#include <algorithm>

#include "base/error.h"
#include "ops/kv_tiles.h"
#include "ops/machine/device_memory.h"
#include "ops/machine/step_graphs.h"

namespace hone::rollout {
KeyMemory::KeyMemory(const model::CausalLm& model, const EngineOptions& options)
    : model_(model),
      options_(options),
      costs_(model.config(), model.dtypes().linear, model.device()),
      limit_(options.kv_memory > 0 ? options.kv_memory : ops::device_memory(model.device()).free / 2) {}

void KeyMemory::lay_out(Sequence& sequence) const {
  const std::int64_t prompt = sequence.length();
  const bool in_tree = sequence.share_prefixes && !costs_.has_states();
  // The last token stays outside: its hidden state is needed.
  sequence.tree_end = in_tree ? (prompt - 1) / ops::kKvTile * ops::kKvTile : 0;
  sequence.own_from = sequence.share_prompt ? prompt : sequence.tree_end;
}

KeyMemory::Room KeyMemory::own_room(const Sequence& sequence) const {
  const bool begun = !sequence.cache.layers.empty();
  const std::int64_t length = begun ? sequence.cache.length - sequence.own_from : 0,
                     tiles = begun ? costs_.tiles_in(sequence.cache.bytes()) : 0,
                     all = sequence.length() - sequence.own_from;
  const std::int64_t total = all + sequence.options->max_new_tokens;
  return {.tiles = costs_.grown(tiles, length, all - length, total, options_.prefill_tokens), .states = 1};
}

KeyMemory::Room KeyMemory::prompt_room(const Sequence& sequence) const {
  if (sequence.own_from == sequence.tree_end) return {};
  return {.tiles = ops::tiles_for(sequence.own_from - sequence.tree_end), .states = 1};
}

std::int64_t KeyMemory::whole_bytes(const Sequence& sequence) const {
  const std::int64_t all = sequence.length() - sequence.own_from,
                     total = all + sequence.options->max_new_tokens;
  return bytes(prompt_room(sequence)) +
         costs_.bytes(
             sequence.tree_end / ops::kKvTile + costs_.grown(0, 0, all, total, options_.prefill_tokens), 1);
}

void KeyMemory::require_room(const Sequence& sequence) const {
  const std::int64_t needed = whole_bytes(sequence);
  if (options_.kv_memory <= 0 || needed <= limit_) return;
  throw base::UserError({.where = sequence.where,
                         .expected = "kv_memory to hold the keys and values of one sequence, " +
                                     std::to_string(needed) + " bytes",
                         .found = std::to_string(limit_) + " bytes",
                         .cause = "the prompt with max_new_tokens is long",
                         .fix = "raise kv_memory, or lower max_new_tokens"});
}

KeyMemory::TileKey KeyMemory::key_of(const Sequence& sequence, const KeyNode* before, std::int64_t from) {
  const auto ids = sequence.ids.begin() + from;
  return {sequence.adapter.get(), before, {ids, ids + ops::kKvTile}};
}

// The tiles of the tree that the sequence's tokens begin with.
std::vector<std::shared_ptr<KeyNode>> KeyMemory::found(const Sequence& sequence) const {
  std::vector<std::shared_ptr<KeyNode>> out;
  for (std::int64_t begin = 0; begin < sequence.tree_end; begin += ops::kKvTile) {
    const auto place = tree_.find(key_of(sequence, out.empty() ? nullptr : out.back().get(), begin));
    if (place == tree_.end()) break;
    out.push_back(place->second);
  }
  return out;
}

std::shared_ptr<KeyNode> KeyMemory::node(const Sequence& sequence, std::int64_t end, const Room& room,
                                         const std::shared_ptr<KeyNode>& before) {
  auto out = std::make_shared<KeyNode>();
  const std::int64_t begin = before ? before->end : 0;
  out->adapter = sequence.adapter;
  out->begin = begin;
  out->end = end;
  out->cache = {.layers = {}, .length = begin, .prefix = prefix_of(before), .room = end - begin};
  out->booking = Booking(&used_, bytes(room));
  return out;
}

void KeyMemory::take_nodes(Sequence& sequence, std::vector<std::shared_ptr<KeyNode>> found) {
  const auto there = static_cast<std::int64_t>(found.size());
  for (std::int64_t from = there * ops::kKvTile; from < sequence.tree_end; from += ops::kKvTile) {
    const auto before = found.empty() ? nullptr : found.back();
    found.push_back(node(sequence, from + ops::kKvTile, {.tiles = 1, .states = 0}, before));
    tree_.emplace(key_of(sequence, before.get(), from), found.back());
  }
  if (sequence.own_from > sequence.tree_end) {
    std::shared_ptr<KeyNode> prompt = sequence.group->node.lock();
    if (!prompt) {
      prompt =
          node(sequence, sequence.own_from, prompt_room(sequence), found.empty() ? nullptr : found.back());
      prompt->is_prompt = true;
      sequence.group->node = prompt;
    }
    if (sequence.group->to_begin > 0) sequence.group->held = prompt;
    found.push_back(std::move(prompt));
  }
  for (const auto& one : found) one->last_use = clock_;
  sequence.nodes = std::move(found);
}

bool KeyMemory::lose_oldest(const Sequences& all, const Sequence& but) {
  Sequence* oldest = nullptr;
  for (const auto& [id, one] : all) {
    if (one->is_live || one.get() == &but || !one->has_keys()) continue;
    if (oldest == nullptr || one->last_use < oldest->last_use) oldest = one.get();
  }
  auto unused = tree_.end();
  for (auto one = tree_.begin(); one != tree_.end(); ++one) {
    if (one->second.use_count() > 1) continue;
    if (unused == tree_.end() || one->second->last_use < unused->second->last_use) unused = one;
  }
  if (oldest == nullptr && unused == tree_.end()) return false;
  lost_ += 1;
  if (unused == tree_.end() || (oldest != nullptr && oldest->last_use < unused->second->last_use)) {
    lose(*oldest);
  } else {
    tree_.erase(unused);
  }
  return true;
}

bool KeyMemory::admit(Sequence& sequence, const Sequences& all, bool must) {
  ++clock_;
  // Held here, so that they are not what is let go.
  auto nodes = sequence.nodes.empty() ? found(sequence) : sequence.nodes;
  const bool has_all = !sequence.nodes.empty() || sequence.own_from == 0;
  const auto prompt = sequence.group->node.lock();
  std::int64_t missing = bytes(own_room(sequence)) - sequence.booking.bytes();
  if (!has_all) {
    missing += costs_.bytes(sequence.tree_end / ops::kKvTile - static_cast<std::int64_t>(nodes.size()), 0);
    if (!prompt) missing += bytes(prompt_room(sequence));
  }
  while (used_ + missing > limit_ && lose_oldest(all, sequence)) {
  }
  if (used_ + missing > limit_) {
    // What it has grown to may be more than what it takes from nothing.
    if (must && sequence.has_keys()) {
      lose(sequence);
      nodes.clear();
      return admit(sequence, all, must);
    }
    if (!must) return false;
  }
  sequence.reused = sequence.cache.layers.empty() ? 0 : sequence.cache.length;
  if (!has_all) take_nodes(sequence, std::move(nodes));
  for (const auto& one : sequence.nodes) {
    if (sequence.reused == one->begin) sequence.reused = one->cache.length;
  }
  const std::int64_t room = bytes(own_room(sequence));
  sequence.booking = Booking();
  sequence.booking = Booking(&used_, room);
  sequence.leave_group();
  return true;
}

void KeyMemory::settle(Sequence& sequence) {
  sequence.last_use = ++clock_;
  for (const auto& one : sequence.nodes) one->last_use = clock_;
  sequence.booking = Booking();
  sequence.booking = Booking(&used_, sequence.cache.bytes());
}

void KeyMemory::lose(Sequence& sequence) {
  sequence.cache = {};
  sequence.nodes.clear();
  sequence.booking = Booking();
}

void KeyMemory::lose_all(const Sequences& all) {
  for (const auto& [id, one] : all) {
    if (!one->is_live) {
      lose(*one);
      continue;
    }
    one->cache.forget();
    for (const auto& node : one->nodes) node->forget_tokens();
  }
  while (std::erase_if(tree_, [](const auto& one) { return one.second.use_count() == 1; }) > 0) {
  }
  reserved_.reset();
}

void KeyMemory::reserve(const std::deque<Sequence*>& waiting) {
  if (reserved_ || waiting.empty() || !costs_.is_pooled()) return;
  std::int64_t tiles = 0, taken = 0, count = 0;
  const PromptGroup* before = nullptr;
  for (const Sequence* const one : waiting) {
    if (count++ == options_.batch_size) break;
    const Room own = own_room(*one), prompt = prompt_room(*one);
    const bool first = one->group.get() != std::exchange(before, one->group.get());
    const std::int64_t in_tree = one->tree_end / ops::kKvTile;
    taken += bytes(own) + (first ? bytes(prompt) + costs_.bytes(in_tree, 0) : 0);
    if (count > 1 && taken > limit_) break;
    tiles += own.tiles + (first ? prompt.tiles + in_tree : 0);
  }
  if (ops::step_graphs_wanted()) tiles += 1;  // the page that rows of a graph write to that are nobody's
  reserved_ = model_.reserve_keys(tiles * ops::kKvTile);
}

std::int64_t KeyMemory::held(const Sequences& all) const {
  std::int64_t out = 0;
  std::map<const KeyNode*, std::int64_t> nodes;
  for (const auto& [key, one] : tree_) nodes[one.get()] = one->cache.bytes();
  for (const auto& [id, sequence] : all) {
    out += sequence->cache.bytes();
    for (const auto& one : sequence->nodes) nodes[one.get()] = one->cache.bytes();
    if (const auto& prompt = sequence->group->held) nodes[prompt.get()] = prompt->cache.bytes();
  }
  for (const auto& [node, bytes] : nodes) out += bytes;
  return out;
}

}  // namespace hone::rollout
