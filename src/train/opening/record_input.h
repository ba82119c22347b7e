// The records of a run's rows: those that an earlier run kept, else made here block by block and kept for the
// next (data/forms/token_cache.h), or, of streamed rows, made when a step asks for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/json.h"
#include "base/row_files.h"
#include "data/files/row_source.h"
#include "data/forms/record_pass.h"
#include "data/records/record_stream.h"
#include "train/batches/run_data.h"
#include "train/opening/open_run.h"

namespace hone::train {

// The training rows' files.
struct DataFile {
  std::vector<base::fs::path> files;
  std::int64_t rows = 0;
};

// A method makes records of rows with this.
struct RowText {
  const config::Plan& plan;
  const text::Tokenizer& tokenizer;
  const text::ChatTemplate* chat_template;  // null: none
  std::int64_t vocab_size;                  // of the model; 0: not known, and no id is checked
};
// `training`: what open_training_template() gave, or null.
RowText row_text(const config::Plan& plan, const OpenedText& text, const text::ChatTemplate* training,
                 std::int64_t vocab_size);

// How a method makes records of its rows.
struct RecordMaking {
  base::Json options;  // data::token_options(): what decides the tokens
  std::function<std::unique_ptr<data::RecordPass>(data::RowSource, data::BlockSize)>
      begin;                                                       // a pass over the rows
  std::function<data::RecordBlock(data::Records)> pack = nullptr;  // null: a row each
  data::BlockSize block = {};
  data::BlockSize streamed = {.rows = 256};  // small ones make the first step early
};

// A pass of rows of one form, and what makes records of its blocks.
template <typename RowsOfForm, typename Maker>
auto passes_of(RowsOfForm empty, Maker maker) {
  return [empty = std::move(empty), maker = std::move(maker)](data::RowSource source, data::BlockSize size) {
    return std::unique_ptr<data::RecordPass>(
        std::make_unique<data::PassOf<RowsOfForm, Maker>>(std::move(source), empty, maker, size));
  };
}

struct RecordInput {
  RecordData data;
  data::RowFacts facts;  // of streamed rows: of the first
  DataFile file;         // the same: none
  data::SeenRows seen;   // of all rows; of the first where rows are streamed, or a file had their tokens
};

// The file's rows, of which pairs of KTO make two records each.
std::int64_t file_rows(const data::RowFacts& facts);

// UserError: what data/forms/rows.h and what makes the records say. Kept tokens are a note of the run.
// `making.pack` is for streamed rows.
RecordInput read_records(OpenedRun& run, const base::RowFiles& rows, const RecordMaking& making);
// The rows to train on, streamed where the plan says so.
RecordInput training_records(OpenedRun& run, const RecordMaking& making);

}  // namespace hone::train
