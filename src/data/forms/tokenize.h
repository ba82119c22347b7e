// Rows -> examples, as TRL 1.16's SFTTrainer._prepare_dataset does: EOS, templates, masks, truncation.
//
//   text                 the text, + EOS where it does not end with it; special tokens added; every token is
//                        a target
//   prompt + completion  prompt and prompt+completion are encoded apart; the completion begins where the two
//                        differ (trl common_prefix_length). Strings: EOS appended to the completion.
//                        Messages: the prompt is rendered with the generation prompt, the whole without.
//   messages             rendered and encoded; every token is a target
//   input_ids            as they are (data/forms/token_row.h)
// With assistant_only_loss only tokens inside {% generation %} are targets (and inside the completion, if
// that counts). Then the first (keep_end: the last) max_length tokens are kept, and a row without a target is
// dropped; with packing, or without max_length, TRL keeps such rows, and so do we.
//
// TRL replaces templates that it knows by its own ones with generation tags when assistant_only_loss is set; so
// does who calls this (text/training_template.h), and any other template without tags is an error.
//
// Difference: in a
// row with both `text` and `completion` TRL appends EOS to the text, which it does not train on; here it goes
// to the completion.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/forms/rows.h"
#include "data/records/record_writer.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

struct TokenizeOptions {
  std::int64_t max_length = 1024;  // 0: off
  bool keep_end = false;           // truncation_mode keep_end: of a long row its last max_length tokens
  bool drop_long = false;          // truncation_mode drop: a longer row is left out
  std::optional<bool> completion_only_loss;  // empty: true exactly for prompt-completion rows
  bool assistant_only_loss = false;
  std::int64_t vocab_size = 0;  // of the embedding; an id at or above it is a UserError (DATA-10). 0: off
  bool packing = false;         // rows without a target are kept, as TRL does when it packs
  bool prepared = false;        // skip_prepare_dataset: tokenized rows that are neither cut nor dropped
  int threads = 0;              // 0: the machine's; the result does not depend on it
};

// Holds what happened to the rows; it is shown before step 1.
struct DataFacts {
  std::int64_t rows = 0, kept = 0;
  std::int64_t tokens = 0, supervised_tokens = 0;  // of the kept rows; a row's first token is never a target
  std::int64_t rows_cut = 0;                       // longer than max_length
  std::int64_t tokens_cut = 0;
  std::int64_t rows_too_long = 0;            // left out, as drop_long says
  std::int64_t rows_without_target = 0;      // nothing supervised after the cut (DATA-01); dropped, see above
  std::int64_t rows_losing_eos = 0;          // the last EOS or end of turn was cut away (DATA-02)
  std::int64_t rows_without_eos_target = 0;  // kept, and EOS / end of turn is never a target in it (DATA-03)
  std::int64_t prompt_boundary_mismatches = 0;  // tokens differ where prompt meets completion (DATA-06)
  std::int64_t longest = 0;                     // before the cut
  double mean_length = 0;                       // of the kept rows

  // Further counts for the doctor (doctor/checks/check_data.cpp).
  std::int64_t rows_emptied_by_cut = 0;    // of rows_without_target: there were targets before the cut
  std::int64_t rows_never_ending = 0;      // of rows_without_eos_target: no end was cut away either
  std::int64_t rows_with_two_bos = 0;      // begin with the BOS token twice (DATA-05)
  std::int64_t rows_with_bos = 0;          // begin with it
  std::int64_t supervised_before_cut = 0;  // targets of all rows, those that were cut away too
  std::int64_t supervised_lost = 0;        // of them, cut away or in a row that was dropped
  // The smallest max_length, in whole 64s, that keeps 99 % of supervised_before_cut; 0: nothing was cut.
  std::int64_t length_keeping_99 = 0;
  std::int64_t rows_with_sharegpt_roles = 0;  // conversations with a role human or gpt
  // Of tokenized rows: attention_mask has a 0; labels are other tokens than input_ids; they are all the token
  // after their own.
  std::int64_t rows_hiding_attention = 0, rows_with_own_labels = 0, rows_with_shifted_labels = 0;
  TokenColumns token_columns = {};
  RowForm form = RowForm::kText;
  bool conversational = false;
};

// Tokenizes the rows of a data set block by block.
class BlockTokenizer {
 public:
  // Borrows tokenizer and template, which may be null.
  BlockTokenizer(const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
                 const TokenizeOptions& options);

  // take(example) for each row of `block` that is kept, in order; `block` begins after the rows of the last one. UserError:
  // conversational rows without a chat template; an assistant mask asked of a template without generation tags, of rows without
  // messages, or empty; strings without an EOS to append; a token id outside the embedding (DATA-10). Of several bad rows of a block
  // the first is named.
  void add(const Rows& block, const TakeRecord& take);
  DataFacts facts() const;  // of the rows so far
  // The same, of all rows. UserError: not one target (DATA-01).
  DataFacts finish(const TakeRecord& take = {}) const;

 private:
  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* chat_template_;
  TokenizeOptions options_;
  DataFacts facts_;
  std::vector<std::int64_t> lost_;  // targets that were cut away, by 64 tokens beyond max_length
  base::fs::path path_;
};

using Dataset = Made<DataFacts>;

// All rows at once. UserError: what BlockTokenizer says.
Dataset tokenize_rows(const Rows& rows, const text::Tokenizer& tokenizer,
                      const text::ChatTemplate* chat_template, const TokenizeOptions& options);

}  // namespace hone::data
