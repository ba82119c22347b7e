// Rows -> examples, as TRL 1.16's SFTTrainer._prepare_dataset does: EOS, templates, masks, truncation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/example.h"
#include "data/rows.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

struct TokeniseOptions {
  std::int64_t max_length = 1024;              // 0: off
  std::optional<bool> completion_only_loss;    // empty: true exactly for prompt-completion rows
  bool assistant_only_loss = false;
  std::int64_t vocab_size = 0;                 // of the embedding; an id at or above it is a UserError (DATA-10)
};

// What happened to the rows; shown before step 1.
struct DataFacts {
  std::int64_t rows = 0, kept = 0;
  std::int64_t tokens = 0, supervised_tokens = 0;
  std::int64_t rows_cut = 0;                   // longer than max_length
  std::int64_t tokens_cut = 0;
  std::int64_t rows_without_target = 0;        // dropped: nothing supervised after the cut
  std::int64_t rows_losing_eos = 0;            // an EOS or end of turn was cut away
  std::int64_t rows_without_eos_target = 0;    // EOS / end of turn is never a target in this row
  std::int64_t prompt_boundary_mismatches = 0; // tokens differ where prompt meets completion (DATA-06)
  std::int64_t longest = 0;
  double mean_length = 0;
};

struct Dataset {
  std::vector<Example> examples;
  DataFacts facts;
};

// UserError: conversational rows without a chat template; an assistant mask asked of a template without generation
// tags; a token id outside the embedding; no row left.
Dataset tokenise_rows(const Rows& rows, const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
                      const TokeniseOptions& options);

}  // namespace hone::data
