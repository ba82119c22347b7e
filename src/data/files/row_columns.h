// What hone does with each column of a row, by the kind of method that reads it, and what was seen of a data
// set's rows.
//
// A reader takes what it knows; a column that no table marks is told to the user in one note
// (train/notes/row_notes.h), since TRL's trainers pass over it in silence. Prompts to sample from have no such note
// where rewards get every other column.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "base/read_keys.h"
#include "data/files/csv.h"

namespace hone::data {

const base::ReadKeys& sft_columns();     // of sft; dataset_text_field is a name of the user's
const base::ReadKeys& pair_columns();    // of dpo
const base::ReadKeys& cpo_columns();     // of cpo and orpo
const base::ReadKeys& reward_columns();  // of reward models
const base::ReadKeys& kto_columns();
const base::ReadKeys& prompt_columns();  // of grpo, rloo and online-dpo

// UserError for a column that its row refuses, unless it is null or empty; `where` names the row.
void refuse_columns(const base::Json& row, const base::ReadKeys& columns, const std::string& where);

// Says whether the options that make rows of other forms changed any of the first rows
// (data/files/map_row.h).
struct MapEffects {
  bool format = false, conversation = false, system_prompt = false;
};

// Holds what is seen of rows while they are read.
struct SeenRows {
  std::vector<std::string>
      columns;  // of all rows, in the order in which they came; after row_function and mapping
  MapEffects effects;
  std::vector<std::string> template_keys;  // of all objects in the column chat_template_kwargs
  std::vector<CsvReading> readings;        // of each column of a CSV file whose values are not its texts

  void add(const base::Json& row);

  std::unordered_set<std::string> known =
      {};  // the names in `columns`, so that rows of many are read in linear time
};

// Returns the columns of `seen` that are not among `read`, which the form of the rows needs, and that
// `columns` does not explain: those without a row there, and those that are applied to rows of other forms
// only.
std::vector<std::string> unread_columns(const SeenRows& seen, const base::ReadKeys& columns,
                                        const std::vector<std::string>& read);

}  // namespace hone::data
