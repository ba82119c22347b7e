#include "train/eval_overlap.h"

#include <span>
#include <unordered_map>
#include <unordered_set>

#include "base/hash.h"

namespace hone::train {

namespace {

std::uint64_t hash_ids(std::span<const std::int32_t> ids, std::uint64_t state = base::kHashStart) {
  return base::hash64(std::as_bytes(ids), state);
}

// `hash_of(row)` of its tokens; `where(index)` names a row to evaluate.
template <typename Row, typename HashOf, typename Where>
EvalOverlap overlap_of(const std::vector<Row>& train, const std::vector<Row>& eval, const HashOf& hash_of,
                       const Where& where) {
  std::unordered_set<std::uint64_t> trained;
  for (const Row& row : train) trained.insert(hash_of(row));
  EvalOverlap out{.rows = static_cast<std::int64_t>(eval.size())};
  for (std::size_t i = 0; i < eval.size(); ++i) {
    if (!trained.contains(hash_of(eval[i]))) continue;
    if (out.trained++ == 0) out.first = where(i);
  }
  return out;
}

std::string line_of(const base::fs::path& file, std::int64_t row) {
  return file.filename().string() + ":" + std::to_string(row + 1);
}

}  // namespace

// The training rows may be too many for a set of them.
EvalOverlap eval_overlap(const ExampleData& train, const ExampleData& eval, const base::fs::path& file) {
  std::unordered_map<std::uint64_t, bool> trained;
  for (std::size_t i = 0; i < eval.examples.size(); ++i)
    trained.emplace(hash_ids(eval.examples[i].ids), false);
  train.examples.for_each([&trained](const data::ExampleView& row) {
    if (const auto found = trained.find(hash_ids(row.ids)); found != trained.end()) found->second = true;
  });
  EvalOverlap out{.rows = static_cast<std::int64_t>(eval.examples.size())};
  for (std::size_t i = 0; i < eval.examples.size(); ++i) {
    const data::ExampleView row = eval.examples[i];
    if (!trained.at(hash_ids(row.ids))) continue;
    if (out.trained++ == 0) out.first = line_of(file, data::file_row(row.row));
  }
  return out;
}

EvalOverlap eval_overlap(const PairData& train, const PairData& eval, const base::fs::path& file) {
  return overlap_of(
      train.pairs, eval.pairs,
      [](const data::PreferencePair& pair) {
        return hash_ids(pair.chosen.scored, hash_ids(pair.chosen.context));
      },
      [&](std::size_t i) { return line_of(file, eval.pairs[i].row); });
}

EvalOverlap eval_overlap(const PolicyPrompts& train, const PolicyPrompts& eval) {
  if (train.tokens.empty()) return {};
  return overlap_of(
      train.tokens, eval.tokens, [](const data::TokenizedPrompt& prompt) { return hash_ids(prompt.ids); },
      [&](std::size_t i) { return eval.rows[i].where; });
}

}  // namespace hone::train
