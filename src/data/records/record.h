// What a row becomes: token sequences with names, which of their tokens are trained, and what the row says
// beside them. And the batch that records are laid out in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hone::data {

constexpr std::int64_t kIgnore = -100;  // a label that is not scored (torch's ignore_index)

// The names of sequences. A method says which its records have, and which of them a pass scores.
enum class Part : std::uint32_t {
  kWhole,  // SFT: the row
  kChosen,
  kRejected,
  kCompletion,  // KTO: a prompt with its own completion
  kExchanged,   // KTO: the same prompt with another row's completion, for the KL
};

// One sequence of a record: its place is behind those before it.
struct Sequence {
  Part part = Part::kWhole;
  std::uint32_t tokens = 0;
  // Tokens of the completion as TRL counts them: the trained ones, and those that are not trained because
  // nothing predicts them, or that come after the last trained one.
  std::uint32_t completion = 0;
};

// One row after tokenization and truncation, or a fragment of it.
struct Record {
  // Line of the data file, from 0, and kFragment for each fragment of it before this one: the key of its
  // randomness, so that two fragments of a row have different dropout.
  std::int64_t row = 0;
  std::vector<std::int32_t> ids;         // [T] of all sequences
  std::vector<std::uint8_t> supervised;  // [T] 1 where the token is a target: trained, or scored
  // [T] what is to be predicted at each target, where the rows have labels that differ from their tokens;
  // empty: the ids
  std::vector<std::int32_t> labels = {};
  std::vector<Sequence> sequences = {};  // empty: one, Part::kWhole
  std::optional<double> margin = {};     // of a pair: by how much chosen is to be better
  std::optional<bool> desirable = {};    // of a completion that is marked
};

// A sequence as a method on completions scores it. Its spans are the record's.
struct ScoredSequence {
  std::span<const std::int32_t> context;  // what comes before the first scored token
  std::span<const std::int32_t> scored;   // to the last one
  std::int64_t completion = 0;            // Sequence::completion

  std::int64_t tokens() const { return static_cast<std::int64_t>(context.size() + scored.size()); }
};

// A Record that something else holds.
struct RecordView {
  std::int64_t row = 0;
  std::span<const std::int32_t> ids;          // [T]
  std::span<const std::uint8_t> supervised;   // [T]
  std::span<const std::int32_t> labels = {};  // [T], or empty: the ids
  std::span<const Sequence> sequences = {};
  std::optional<double> margin = {};
  std::optional<bool> desirable = {};

  // What is to be predicted at token `i`, where it is a target.
  std::int32_t label(std::size_t i) const { return labels.empty() ? ids[i] : labels[i]; }
  // The sequence of that name: InternalError where the record has none.
  ScoredSequence sequence(Part part) const;
};
RecordView view(const Record& record);
Record copy_of(const RecordView& record);
// Behind the sequences that `record` has: `context`, then `scored`. `completion` below 0: the scored tokens.
void add_sequence(Record& record, Part part, std::span<const std::int32_t> context,
                  std::span<const std::int32_t> scored, std::int64_t completion = -1);

// Two sequences of a record, as methods that compare them read it.
struct SequencePair {
  ScoredSequence first, second;

  bool shares_context() const;
  bool is_equal() const;  // the same tokens on both sides
  // With the context once where it can be.
  std::int64_t tokens(bool share) const;
};
// The first two: chosen and rejected, or a completion and the exchanged one.
SequencePair sides_of(const RecordView& record);

constexpr std::int64_t kFragment = std::int64_t{1} << 32;  // more than a file has rows
constexpr std::int64_t kMaxFragments = 1 << 16;  // base::Stream takes 48 bits; later ones repeat keys

// The line of the data file that a Record::row or Segment::row came from.
constexpr std::int64_t file_row(std::int64_t row) {
  return row % kFragment;
}

constexpr std::int64_t kNoPrefix = -1;

// One record's place in a batch.
struct Segment {
  std::int64_t begin = 0;  // first token in the batch's arrays
  std::int64_t end = 0;    // one past the last
  std::int64_t row = 0;    // Record::row
  // An earlier segment of the batch to which this one's tokens also attend (a prompt that several completions
  // share; its own prefix is kNoPrefix). Positions continue after it.
  std::int64_t prefix = kNoPrefix;
};

// Concatenated records without padding; attention stays inside a segment and its prefix. A label at t is the
// target *at* t (not shifted): the model's output at t-1 is scored against it. The first token of a segment
// is never a target.
struct Batch {
  std::vector<std::int64_t> ids;        // [T]
  std::vector<std::int64_t> positions;  // [T], 0 at each segment's first token, or its prefix's length
  std::vector<std::int64_t> labels;     // [T], kIgnore where not scored
  std::vector<Segment> segments;
};

}  // namespace hone::data
