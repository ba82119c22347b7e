// One pass over the rows of a data set: blocks are read, checked and made into records, whatever their form.
#pragma once

#include <optional>
#include <utility>

#include "data/files/row_stream.h"
#include "data/forms/row_facts.h"
#include "data/records/record_writer.h"

namespace hone::data {

class RecordPass {
 public:
  virtual ~RecordPass() = default;
  // take(record) for each record of the next block, in order; false: these were the last. UserError: a row
  // that is wrong, or, with the last block, rows of which nothing is left.
  virtual bool next(const TakeRecord& take) = 0;
  virtual RowFacts facts() const = 0;  // of the rows so far
  const SeenRows& seen() const { return seen_; }

 protected:
  SeenRows seen_;
};

// `Maker`: BlockTokenizer, PairMaker or UnpairedMaker.
template <typename RowsOfForm, typename Maker>
class PassOf final : public RecordPass {
 public:
  PassOf(RowSource source, RowsOfForm empty, Maker maker, BlockSize size)
      : rows_(std::move(source), std::move(empty), size), maker_(std::move(maker)) {}

  bool next(const TakeRecord& take) override {
    const std::optional<RowsOfForm> block = rows_.next();
    if (!block) {
      (void)maker_.finish(take);
      return false;
    }
    maker_.add(*block, take);
    seen_ = block->names.seen();
    return true;
  }
  RowFacts facts() const override { return maker_.facts(); }

 private:
  RowStream<RowsOfForm> rows_;
  Maker maker_;
};

}  // namespace hone::data
