#include "data/records/record.h"

#include <algorithm>

#include "base/error.h"

namespace hone::data {

namespace {

bool is_same(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

RecordView view(const Record& record) {
  return {.row = record.row,
          .ids = record.ids,
          .supervised = record.supervised,
          .labels = record.labels,
          .sequences = record.sequences,
          .margin = record.margin,
          .desirable = record.desirable};
}

Record copy_of(const RecordView& record) {
  return {.row = record.row,
          .ids = {record.ids.begin(), record.ids.end()},
          .supervised = {record.supervised.begin(), record.supervised.end()},
          .labels = {record.labels.begin(), record.labels.end()},
          .sequences = {record.sequences.begin(), record.sequences.end()},
          .margin = record.margin,
          .desirable = record.desirable};
}

ScoredSequence RecordView::sequence(Part part) const {
  std::size_t begin = 0;
  for (const Sequence& each : sequences) {
    if (each.part != part) {
      begin += each.tokens;
      continue;
    }
    const auto flags = supervised.subspan(begin, each.tokens);
    const auto context = static_cast<std::size_t>(std::find(flags.begin(), flags.end(), 1) - flags.begin());
    return {.context = ids.subspan(begin, context),
            .scored = ids.subspan(begin + context, each.tokens - context),
            .completion = each.completion};
  }
  throw base::InternalError(
      {.where = "data::RecordView", .expected = "a sequence of that name", .found = "none"});
}

void add_sequence(Record& record, Part part, std::span<const std::int32_t> context,
                  std::span<const std::int32_t> scored, std::int64_t completion) {
  record.ids.insert(record.ids.end(), context.begin(), context.end());
  record.ids.insert(record.ids.end(), scored.begin(), scored.end());
  record.supervised.resize(record.supervised.size() + context.size(), 0);
  record.supervised.resize(record.ids.size(), 1);
  record.sequences.push_back(
      {.part = part,
       .tokens = static_cast<std::uint32_t>(context.size() + scored.size()),
       .completion = static_cast<std::uint32_t>(completion < 0 ? std::ssize(scored) : completion)});
}

bool SequencePair::shares_context() const {
  return is_same(first.context, second.context);
}

bool SequencePair::is_equal() const {
  return shares_context() && is_same(first.scored, second.scored);
}

std::int64_t SequencePair::tokens(bool share) const {
  const bool once = share && shares_context();
  return first.tokens() + second.tokens() - (once ? std::ssize(second.context) : 0);
}

SequencePair sides_of(const RecordView& record) {
  base::require(record.sequences.size() == 2, "data::sides_of", "a record of two sequences");
  return {record.sequence(record.sequences[0].part), record.sequence(record.sequences[1].part)};
}

}  // namespace hone::data
