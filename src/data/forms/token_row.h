// Rows that are tokenized already, as TRL 1.16's SFTTrainer._prepare_dataset reads them:
//
//   {"input_ids": [1, 50, 60, 2]}                                       every token is a target
//   {"input_ids": [1, 50, 60, 2], "labels": [-100, -100, 60, 2]}        the labels as they are; -100 is no target
//   {"input_ids": [1, 50, 60, 2], "assistant_masks": [0, 0, 1, 1]}      targets where the mask is not 0
//   {"input_ids": [1, 50, 60, 2], "completion_mask": [0, 0, 1, 1]}      the same, with completion_only_loss only
//
// Both masks count together; beside labels neither counts. The columns of the first row are those of all. No
// template is rendered and no end of sequence added. Other forms of a row that stand beside input_ids are not
// read; neither is attention_mask, so that a token of padding is a token like another.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "data/forms/row_checks.h"
#include "data/records/record.h"

namespace hone::data {

// The columns that stand beside input_ids.
struct TokenColumns {
  bool labels = false, completion_mask = false, assistant_masks = false;
  bool conversational = false;  // messages too, which TRL asks of assistant_only_loss
  bool completions = false;     // prompt and completion too: completion_only_loss is then true by itself

  bool operator==(const TokenColumns&) const = default;
};

TokenColumns token_columns(const base::Json& row);

struct TokenRow {
  Record example;                // its labels only where they are not the ids
  bool hides_attention = false;  // attention_mask has a 0
  bool labels_are_next = false;  // every label is the token after its own: they are shifted already
};

// UserError naming row and column: no list of ids, a list of lists, a label or mask of another length, a
// column that the first row has or has not.
TokenRow token_row(const base::Json& row, const TokenColumns& columns, bool completion_only,
                   const RowName& where);

// UserError for an id or a label that the model's embedding has no row for. vocab_size 0: nothing is checked.
void check_own_tokens(const Record& example, std::int64_t vocab_size, const RowName& where);

}  // namespace hone::data
