// Pairs of a chosen and a rejected completion, as TRL 1.16's DPOTrainer prepares them (_prepare_dataset and
// its collator).
//
//   {"prompt": "2 + 3 =", "chosen": " 5", "rejected": " 6"}
//   {"prompt": [{"role": "user", ...}], "chosen": [{"role": "assistant", ...}],
//    "rejected": [{"role": "assistant", ...}]}
//   {"chosen": "2 + 3 = 5", "rejected": "2 + 3 = 6"}
//
// Without a column `prompt` the prompt is the longest common prefix of chosen and rejected (TRL's
// extract_prompt), in characters or in messages; a space before the difference belongs to the completion.
// The first row decides for the whole file.
// Optional columns for templates: `tools` (list, or its text) and `chat_template_kwargs` (object)
//
// Tokens: prompt, prompt + chosen and prompt + rejected are encoded apart; the completions begin where the
// three part ways. Text: EOS is appended where a completion does not end with it, and special tokens are
// added (BOS). Messages: the prompt is rendered with the generation prompt, the whole without. In a pair
// longer than max_length each sequence keeps its first max_length tokens (keep_start; a prompt that fills
// them leaves nothing, and the pair is dropped) or its last (keep_end).
//
// Differences: of chosen and rejected that differ in their first character TRL looks for a space at the end
// of chosen and, when there is one, cuts there; here the prompt is empty. Of two that are the same, or begin
// with one another, TRL's prompt is all but the shorter one's last character (or message), and so is ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "data/files/row_source.h"
#include "data/records/record.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

struct PreferenceRow {
  base::Json prompt, chosen, rejected;  // text, or lists of messages; one kind in a file
  base::Json tools, template_kwargs;    // null: none
  std::optional<double> margin;         // of reward models: by how much chosen is to be better
};

// TRL's extract_prompt: what chosen and rejected, two texts or two lists of messages, begin with becomes the prompt. UserError for
// conversations that share no message.
void extract_prompt(PreferenceRow& row, const std::string& where);

// What becomes of the prompts of rows without such a column: taken out into PreferenceRow::prompt (TRL's
// extract_prompt), or left where they are, as a reward model reads them; then `margin` is read too, a number in
// every row or in none. kExtractMixed is kExtract, and a column `prompt` of text beside conversations, which
// repeats their first message, counts as none (TRL's maybe_extract_prompt).
enum class ImplicitPrompts { kExtract, kExtractMixed, kKeep };

struct PreferenceRows : NamedRows {
  ImplicitPrompts prompts = ImplicitPrompts::kExtract;
  bool tokenized = false;  // kKeep: chosen and rejected are lists of token ids (chosen_ids, rejected_ids)
  bool implicit = false;   // no column `prompt`: prompts stand in chosen and rejected
  bool margins = false;    // the rows have margins
  std::vector<PreferenceRow> rows;
};
// Without rows, for read_all or a data::RowStream.
PreferenceRows preference_rows(ImplicitPrompts implicit = ImplicitPrompts::kExtract);

// One row, checked; the first one says the form of all. UserError for: a column absent (naming those there)
// or of the wrong type, rows of both kinds, conversations that share no message (kExtract).
PreferenceRow read_pair(base::Json row, const std::string& where, PreferenceRows& form);
void add_row(base::Json row, int number, PreferenceRows& out);

// Holds what happened to the rows; it is shown before step 1.
struct PreferenceFacts {
  std::int64_t rows = 0, kept = 0;
  bool implicit = false;               // PreferenceRows::implicit
  bool conversational = false;         // PreferenceRows::conversational
  std::int64_t tokens = 0;             // of both sequences of the kept pairs
  std::int64_t completion_tokens = 0;  // of these, scored
  std::int64_t pairs_cut = 0;          // kept, one of the two longer than max_length
  std::int64_t prompts_too_long = 0;   // dropped: the prompt fills max_length
  std::int64_t too_long = 0;           // dropped: one of the two is longer than max_length
  std::int64_t equal = 0;              // kept, chosen and rejected of the same tokens: no gradient (PREF-01)
  std::int64_t equal_by_template =
      0;                      // of these, not cut, and the messages of the two sides differ in the file
  std::string equal_example;  // the first of them: what differs; empty: none
  std::int64_t boundary_mismatches = 0;  // the prompt is tokenized differently with a completion (DATA-06)
  std::int64_t longest = 0;              // tokens of a sequence, before the cut
  std::int64_t longest_prompt = 0;       // of the kept
  double mean_chosen = 0, mean_rejected = 0;  // completion tokens of the kept (PREF-02)
};

struct PairOptions {
  std::int64_t max_length = 1024;  // 0: off; of CPO at least 2
  // A prompt keeps its last tokens, before max_length; 0: all. For CPO it is below max_length.
  std::int64_t max_prompt_length = 0;
  bool keep_end = false;   // DPO: truncation_mode keep_end
  bool drop_long = false;  // DPO: truncation_mode drop
  std::optional<std::int32_t> pad_id =
      {};                       // reward models read no score at it; none: the last token has the score
  std::int64_t vocab_size = 0;  // of the embedding; an id at or above it is a UserError (DATA-10). 0: off
  int threads = 0;              // 0: the machine's; the result does not depend on it
};

// Holds what became of one row: a record of Part::kChosen and Part::kRejected.
struct PairDone {
  Record record;
  bool dropped = false;   // the prompt fills max_length
  bool too_long = false;  // dropped because one of the two is longer than max_length
  bool cut = false, boundary_mismatch = false;
  std::int64_t longest = 0;       // tokens of a sequence, before the cut
  std::int64_t tokens_after = 0;  // pad tokens behind the sequences, which only TRL's counts have
};

// The pairs of a block of rows as DPO reads them (data/forms/pair_maker.h has all blocks). UserError: messages
// without a chat template, text without an EOS to append, a completion that adds no token, a token id outside
// the embedding. Of several bad rows the first is named.
std::vector<PairDone> make_dpo_pairs(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                                     const text::ChatTemplate* chat_template, const PairOptions& options);

}  // namespace hone::data
