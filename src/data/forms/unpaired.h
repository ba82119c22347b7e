// Completions that are marked desirable or not, as TRL 1.16's KTOTrainer prepares them (_prepare_dataset and
// its collator).
//
//   {"prompt": "2 + 3 =", "completion": " 5", "label": true}
//   {"prompt": [{"role": "user", ...}], "completion": [{"role": "assistant", ...}], "label": false}
//   rows of pairs (data/forms/preferences.h), with or without prompts: of every thousand rows first the chosen
//   ones, desirable, then the rejected ones, not (unpair_preference_dataset on batches of datasets.map's
//   size)
// Optional columns for templates: `tools` (list, or its text) and `chat_template_kwargs` (object)
//
// Tokens: prompt and prompt + completion are encoded apart; the completion begins where the two differ. Text:
// EOS is appended to a completion that does not end with it, and special tokens are added (BOS). Messages:
// the prompt is rendered with the generation prompt, the whole without. A sequence longer than max_length
// keeps its first max_length tokens; a row whose prompt fills them is dropped.
//
// The KL is estimated from prompts with another row's completion: within each batch_size kept rows, in order,
// a prompt gets the completion of the row before it, the first that of the last.
#pragma once

#include <cstdint>
#include <vector>

#include "base/files/file.h"
#include "data/files/row_stream.h"
#include "data/forms/preferences.h"
#include "data/records/record_writer.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

struct UnpairedRow {
  base::Json prompt, completion;      // text, or lists of messages; one kind in a file
  bool desirable = false;             // `label`
  base::Json tools, template_kwargs;  // null: none
};

struct UnpairedRows : NamedRows {
  bool paired = false;   // the file has pairs; each gives two rows
  PreferenceRows pairs;  // that were read, until close_block() makes rows of them
  std::vector<UnpairedRow> rows;
};
// Where rows are read in blocks: these keep the order of unpaired pairs.
inline constexpr BlockSize kUnpairedBlock = {.rows = 1000, .bytes = SIZE_MAX};

// UserError as of pairs, and for a label that is neither true nor false (0 and 1 are read as such).
void add_row(base::Json row, int number, UnpairedRows& out);
void close_block(UnpairedRows& out);

// Holds what happened to the rows; it is shown before step 1.
struct UnpairedFacts {
  std::int64_t rows = 0, kept = 0, desirable = 0;  // desirable: of the kept
  bool paired = false;                             // UnpairedRows::paired
  bool conversational = false;                     // UnpairedRows::conversational
  std::int64_t tokens = 0, completion_tokens = 0;  // of the kept
  std::int64_t rows_cut = 0;                       // kept, longer than max_length
  std::int64_t prompts_too_long = 0;               // dropped: the prompt fills max_length
  std::int64_t boundary_mismatches = 0;            // the prompt is tokenized differently with its completion
  std::int64_t longest = 0;                        // tokens of a sequence, before the cut
  std::int64_t longest_prompt = 0;                 // of the kept
};

struct UnpairedOptions {
  std::int64_t max_length = 1024;      // 0: off
  std::int64_t max_prompt_length = 0;  // a prompt keeps its last tokens, before max_length; 0: all
  std::int64_t batch_size = 8;         // rows among which completions are exchanged
  std::int64_t vocab_size = 0;         // an id at or above it is a UserError (DATA-10). 0: off
  int threads = 0;                     // 0: the machine's; the result does not depend on it
};

// Makes records of Part::kCompletion and Part::kExchanged, which are marked; Record::row is the line in the
// file, from 0.
class UnpairedMaker {
 public:
  // Borrows tokenizer and template, which may be null.
  UnpairedMaker(const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
                const UnpairedOptions& options)
      : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {}

  // take(record) for each row that is kept, in order, as soon as the rows that it exchanges completions with
  // are there. UserError: messages without a chat template, text without an EOS to append, a completion that
  // adds no token, a token id outside the embedding. Of several bad rows of a block the first is named.
  void add(const UnpairedRows& block, const TakeRecord& take);
  UnpairedFacts facts() const { return facts_; }  // of the rows so far
  // The last rows. UserError: no row is left.
  UnpairedFacts finish(const TakeRecord& take);

 private:
  struct Kept {
    std::vector<std::int32_t> prompt, completion;  // not cut
    std::int64_t row = 0;
    bool desirable = false;
  };
  void exchange(const TakeRecord& take);

  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* chat_template_;
  UnpairedOptions options_;
  UnpairedFacts facts_;
  std::vector<Kept> kept_;  // fewer than batch_size
  base::fs::path path_;
};

}  // namespace hone::data
