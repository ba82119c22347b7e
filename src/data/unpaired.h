// Completions that are marked desirable or not, as TRL 1.16's KTOTrainer prepares them (_prepare_dataset and
// its collator).
//
//   {"prompt": "2 + 3 =", "completion": " 5", "label": true}
//   {"prompt": [{"role": "user", ...}], "completion": [{"role": "assistant", ...}], "label": false}
//   rows of pairs (data/preferences.h), with or without prompts: of every thousand rows first the chosen
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

#include "base/file.h"
#include "data/preferences.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

struct UnpairedRow {
  base::Json prompt, completion;      // text, or lists of messages; one kind in a file
  bool desirable = false;             // `label`
  base::Json tools, template_kwargs;  // null: none
  int line = 0;                       // its number, as data/row_source.h counts
};

struct UnpairedRows {
  base::fs::path path;  // RowSource::path
  RowNames names;
  bool conversational = false;
  bool paired = false;  // the file has pairs; each gives two rows
  std::int64_t file_rows = 0;
  std::vector<UnpairedRow> rows;

  std::string where(std::size_t index) const;  // "rows.jsonl:12"
};

// UserError as read_preference_rows, and for a label that is
// neither true nor false (0 and 1 are read as such).
UnpairedRows read_unpaired_rows(const RowSource& source);

// What happened to the rows; shown before step 1.
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

struct UnpairedData {
  // Of each kept row: `chosen` is its prompt with its completion, `rejected` the prompt with another row's;
  // `row` is its line in the file, from 0.
  std::vector<PreferencePair> rows;
  std::vector<std::uint8_t> desirable;  // [rows]
  UnpairedFacts facts;
};

// UserError: messages without a chat template, text without an EOS to append, a completion that adds no
// token, a token id outside the embedding, no row left. Of several bad rows the first is named.
UnpairedData tokenize_unpaired(const UnpairedRows& rows, const text::Tokenizer& tokenizer,
                               const text::ChatTemplate* chat_template, const UnpairedOptions& options);

}  // namespace hone::data
