// The common steps of opening a run, before and after the method's own part:
//
//   std::unique_ptr<OpenedRun> run = open_source(asked);
//   ... the method's data, into run->data: a wrong row is found in seconds, before any weight is read
//   const Attached attached = attach(*run, file, longest, {});
//   plan_run_memory(*run, inputs);
//   run->method = ...; end_start_page(*run);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/preferences.h"
#include "text/tokenizer.h"
#include "train/eval_overlap.h"
#include "train/memory_plan.h"
#include "train/open_run.h"
#include "train/pair_method.h"
#include "train/read_eval.h"
#include "train/reference.h"
#include "train/row_notes.h"
#include "train/step_facts.h"

namespace hone::train {

// Threads, the model's folder or file, tokenizer and template.
std::unique_ptr<OpenedRun> open_source(const config::Plan& asked);

// How SFT makes tokens of its rows.
data::TokenizeOptions example_options(const config::Plan& plan, std::int64_t vocab_size, bool packing);

// The training rows' files.
struct DataFile {
  std::vector<base::fs::path> files;
  std::int64_t rows = 0;
};

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

// ---- methods on pairs

// A file of pairs, and what was counted while it was read.
template <typename Facts>
struct PairInput {
  PairData data;
  Facts facts;
  DataFile file;
  data::SeenRows seen;
};

// Moves the pairs into the run and gives a method its parts; run.start.memory is there.
PairParts pair_parts(OpenedRun& run, std::optional<PairData> eval, Reference reference);

// The tokens of a pair that the head scores; a score head has one of each side, whatever is said here.
enum class HeadTokens { kCompletions, kChosenPromptsToo };

// What passes over the run's pairs hold at most, prompts once where they may be shared; `eval` may be null,
// `longest_prompt` is of the training pairs.
MemoryInputs pair_memory(const OpenedRun& run, std::int64_t program_bytes, const PairData* eval,
                         std::int64_t longest_prompt, HeadTokens head_tokens = HeadTokens::kCompletions);

// Whether passes may share prompts, before it is known which form runs.
bool may_share(const config::Plan& plan);

// The pair's chosen side as one text: its prompt, then what is to become more likely.
std::vector<ColoredPiece> example_of(const data::PreferencePair& pair, const text::Tokenizer& tokenizer);

// describe_reference, and when its log-probabilities are computed.
std::string reference_line(const config::Plan& plan);

// The whole opening of a method on pairs, after open_source. `read(source)` gives a PairInput; `begin(facts,
// eval, program_bytes)` fills in what run.start holds of the method and gives the numbers of the run's
// memory; `eval` may be null.
template <typename PairMethodOf, typename Read, typename Begin>
void open_pairs(OpenedRun& run, const AttachOptions& options, const Read& read, const Begin& begin) {
  const auto source = [&run](const base::RowFiles& rows) {
    return data::RowSource(rows_for(run.text->tokenizer, run.plan, rows));
  };
  auto input = read(source(run.plan.train_rows));
  const RowReading reading = pair_reading(run.plan.method, input.seen, input.facts.conversational);
  note_rows(run, input.seen, reading, notes_of_rows(run.plan, input.seen, reading));
  std::optional<PairData> eval = read_eval<PairData>(
      run.plan, [&](const base::RowFiles& files) { return std::move(read(source(files)).data); });
  if constexpr (requires { input.facts.implicit; }) {
    if (!input.facts.conversational && !input.facts.implicit) note_plain_texts(run);
  } else if constexpr (requires { input.facts.paired; }) {
    if (!input.facts.conversational && !input.facts.paired) note_plain_texts(run);
  }
  Attached attached = attach(run, input.file, input.facts.longest, options);
  const PairData& train = run.data.emplace<PairData>(std::move(input.data));
  run.start.train_rows = input.facts.kept;
  run.start.mean_length = static_cast<double>(input.facts.tokens) / static_cast<double>(input.facts.kept);
  run.start.conversational = input.facts.conversational;
  if (eval) run.start.overlap = eval_overlap(train, *eval, run.plan.dataset_test);
  run.start.example = example_of(train.pairs.front(), run.text->tokenizer);
  plan_run_memory(run, begin(input.facts, eval ? &*eval : nullptr, attached.program_bytes));
  run.method =
      std::make_unique<PairMethodOf>(pair_parts(run, std::move(eval), std::move(attached.reference)));
  end_start_page(run);
}

inline std::int64_t rows_of(const PairData* eval) {
  return eval == nullptr ? 0 : static_cast<std::int64_t>(eval->pairs.size());
}

std::string short_number(double value);  // "0.1", "5", "1e-07"

}  // namespace hone::train
