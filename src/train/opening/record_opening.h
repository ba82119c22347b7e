// The order of events before the first step of a method on given rows, as prose: SFT, DPO, KTO, CPO, ORPO,
// reward models.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "data/forms/pair_maker.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/open_run.h"
#include "train/opening/opening.h"
#include "train/opening/record_input.h"
#include "train/steps/row_method.h"

namespace hone::train {

// Holds what is there when a method describes itself and plans its memory.
struct OpenedRecords {
  const data::RowFacts& facts;  // of the training rows
  const RecordData& train;
  const RecordData* eval;      // null: no evaluation
  std::int64_t program_bytes;  // Attached::program_bytes

  std::int64_t eval_rows() const {
    return eval == nullptr ? 0 : static_cast<std::int64_t>(eval->rows.size());
  }
};

// A method's own part of the opening.
struct RecordOpening {
  AttachOptions attach = {};
  RecordMaking (*making)(const RowText&);
  // Makes records of rows to evaluate, where what was found in the training rows decides. Null: as those.
  RecordMaking (*eval_making)(const RowText&, const data::RowFacts& train) = nullptr;
  // Fills in what run.start holds of the method, and gives the numbers of the run's memory.
  MemoryInputs (*begin)(OpenedRun&, const OpenedRecords&);
  std::unique_ptr<TrainingMethod> (*method)(RecordParts);
};
std::unique_ptr<OpenedRun> open_records(const config::Plan& asked, const RecordOpening& opening);

template <typename MethodOf>
std::unique_ptr<TrainingMethod> new_method(RecordParts parts) {
  return std::make_unique<MethodOf>(std::move(parts));
}

// ---- records of two sequences

// How DPO, CPO, ORPO (`what`: "dpo", "cpo") and reward models make records.
RecordMaking pair_making(const RowText& text, const std::string& what, data::ImplicitPrompts prompts,
                         data::PairMaker::MakePairs make, data::PairOptions options);

// The tokens of a pair that the head scores; a score head has one of each side, whatever is said here.
enum class HeadTokens { kCompletions, kChosenPromptsToo };

// What passes over the run's pairs hold at most, prompts once where they may be shared; `longest_prompt` is of
// the training pairs.
MemoryInputs pair_memory(const OpenedRun& run, const OpenedRecords& records, std::int64_t longest_prompt,
                         HeadTokens head_tokens = HeadTokens::kCompletions);
// The most that `batch_size` of the records can have together, of which size_of() says what each has. Of
// streamed ones: two sequences of the longest there may be.
LongestBatch longest_records(const RecordData& data, std::int64_t batch_size,
                             const std::function<RowSize(const data::RecordView&)>& size_of);

}  // namespace hone::train
