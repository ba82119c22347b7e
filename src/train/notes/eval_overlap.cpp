#include "train/notes/eval_overlap.h"

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/hash.h"

namespace hone::train {

namespace {

std::uint64_t hash_ids(std::span<const std::int32_t> ids, std::uint64_t state = base::kHashStart) {
  return base::hash64(std::as_bytes(ids), state);
}

// What a row is asked and what it is to say.
std::uint64_t hash_of(const data::RecordView& row) {
  if (row.sequences.empty()) return hash_ids(row.ids);
  const data::ScoredSequence wanted = data::sides_of(row).first;
  return hash_ids(wanted.scored, hash_ids(wanted.context));
}

// `trained`: the rows to evaluate that are trained on; `where(index)` names one.
template <typename IsTrained, typename Where>
EvalOverlap counted_overlap(std::size_t rows, const IsTrained& is_trained, const Where& where) {
  EvalOverlap out{.rows = static_cast<std::int64_t>(rows)};
  for (std::size_t i = 0; i < rows; ++i) {
    if (is_trained(i) && out.trained++ == 0) out.first = where(i);
  }
  return out;
}

}  // namespace

// The training rows may be too many for a set of them.
EvalOverlap eval_overlap(const RecordData& train, const RecordData& eval, const base::fs::path& file) {
  std::vector<std::uint64_t> hashes;
  std::unordered_map<std::uint64_t, bool> trained;
  eval.records.for_each([&](const data::RecordView& row) {
    hashes.push_back(hash_of(row));
    trained.emplace(hashes.back(), false);
  });
  train.records.for_each([&trained](const data::RecordView& row) {
    if (const auto found = trained.find(hash_of(row)); found != trained.end()) found->second = true;
  });
  return counted_overlap(
      hashes.size(), [&](std::size_t i) { return trained.at(hashes[i]); },
      [&](std::size_t i) {
        return file.filename().string() + ":" + std::to_string(data::file_row(eval.records[i].row) + 1);
      });
}

EvalOverlap eval_overlap(const PolicyPrompts& train, const PolicyPrompts& eval) {
  if (train.tokens.empty()) return {};
  std::unordered_set<std::uint64_t> trained;
  for (const data::TokenizedPrompt& prompt : train.tokens) trained.insert(hash_ids(prompt.ids));
  return counted_overlap(
      eval.tokens.size(), [&](std::size_t i) { return trained.contains(hash_ids(eval.tokens[i].ids)); },
      [&](std::size_t i) { return eval.rows[i].where; });
}

}  // namespace hone::train
