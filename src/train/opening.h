// The common steps of opening a run, before and after the method's own part:
//
//   std::unique_ptr<OpenedRun> run = open_source(asked);
//   ... the method's data, into run->data: a wrong row is found in seconds, before any weight is read
//   const Attached attached = attach(*run, file, longest, {});
//   plan_run_memory(*run, inputs);
//   run->method = ...; end_start_page(*run);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/pair_maker.h"
#include "train/memory_inputs.h"
#include "train/memory_plan.h"
#include "train/open_run.h"
#include "train/pair_method.h"
#include "train/record_input.h"
#include "train/reference.h"
#include "train/step_facts.h"

namespace hone::train {

// Threads, the model's folder or file, tokenizer and template.
std::unique_ptr<OpenedRun> open_source(const config::Plan& asked);

// How SFT makes tokens of its rows.
data::TokenizeOptions example_options(const config::Plan& plan, std::int64_t vocab_size, bool packing);

struct AttachOptions {
  bool packs = true;  // packed weights where the fused form may run
  bool wants_reference = true;
};
struct Attached {
  std::int64_t program_bytes = 0;  // in use just before the model was read
  Reference reference;
};
// Base, adapter and the adapters below it, the resume state, and the start page's first facts. The reference
// is TRL's: for a continued adapter its initial values (PEFT's "ref"), also in a resumed run; for a PiSSA
// adapter, whose initial values were subtracted from the base, those values; else only the base. `longest`
// sequence before the cut at max_length, where it is known.
Attached attach(OpenedRun& run, const DataFile& file, std::optional<std::int64_t> longest,
                const AttachOptions& options);

// Into run.start: the plan of the run's memory, which says what its passes keep.
void plan_run_memory(OpenedRun& run, MemoryInputs inputs);

// Into run.start, when the method is there: the steps.
void end_start_page(OpenedRun& run);

// ---- methods on records of two sequences

// The tokens of a pair that the head scores; a score head has one of each side, whatever is said here.
enum class HeadTokens { kCompletions, kChosenPromptsToo };

// What passes over the run's pairs hold at most, prompts once where they may be shared; `eval` may be null,
// `longest_prompt` is of the training pairs.
MemoryInputs pair_memory(const OpenedRun& run, std::int64_t program_bytes, const RecordData* eval,
                         std::int64_t longest_prompt, HeadTokens head_tokens = HeadTokens::kCompletions);
// The most that `batch_size` of the records can have together, of which size_of() says what each has. Of
// streamed ones: two sequences of the longest there may be.
LongestBatch longest_records(const RecordData& data, std::int64_t batch_size,
                             const std::function<RowSize(const data::RecordView&)>& size_of);

// Whether passes may share prompts, before it is known which form runs.
bool may_share(const config::Plan& plan);

// describe_reference, and when its log-probabilities are computed.
std::string reference_line(const config::Plan& plan);

// The whole opening of a method on such records, after open_source.
struct PairOpening {
  AttachOptions attach;
  RecordMaking making;
  // Fills in what run.start holds of the method, and gives the numbers of the run's memory; `eval` may be
  // null.
  std::function<MemoryInputs(const data::RowFacts&, const RecordData* eval, std::int64_t program_bytes)>
      begin;
  std::unique_ptr<TrainingMethod> (*method)(PairParts);
};
void open_pairs(OpenedRun& run, const PairOpening& opening);

template <typename MethodOf>
std::unique_ptr<TrainingMethod> new_method(PairParts parts) {
  return std::make_unique<MethodOf>(std::move(parts));
}

// How DPO, CPO, ORPO (`what`: "dpo", "cpo") and reward models make records.
RecordMaking pair_making(const OpenedRun& run, const std::string& what, data::ImplicitPrompts prompts,
                         data::PairMaker::MakePairs make, data::PairOptions options);

inline std::int64_t rows_of(const RecordData* eval) {
  return eval == nullptr ? 0 : static_cast<std::int64_t>(eval->rows.size());
}

std::string short_number(double value);  // "0.1", "5", "1e-07"

}  // namespace hone::train
