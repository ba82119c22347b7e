// What the start page says of how rows reach the model, where a person may have meant something else.
#pragma once

#include <string>
#include <vector>

#include "base/read_keys.h"
#include "data/row_columns.h"
#include "data/tokenize.h"
#include "train/open_run.h"

namespace hone::train {

// Into run.start.notes. Texts of prompts on a model with a chat template: the template is not used, and make_conversation would use it.
void note_plain_texts(OpenedRun& run);
// Rows of `count` conversations whose roles are ShareGPT's (human, gpt), as TRL leaves them: most templates pass over such turns.
void note_sharegpt_roles(OpenedRun& run, std::int64_t count);

// Rows as a method reads them. `forms`: words of config::kRowForms.
struct RowReading {
  const base::ReadKeys& columns;
  std::vector<std::string> forms;
  bool names_unread = true;  // false: other columns go to rewards
};
RowReading example_reading(const data::DataFacts& facts);
RowReading pair_reading(config::Method method, const data::SeenRows& seen,
                        bool conversational);  // KTO's rows too
RowReading prompt_reading(bool conversational);

// What of the rows and of the options that are for rows is not applied (data/row_columns.h,
// config/option_table.h): columns that the method does not read, options for rows of other forms, options
// that changed no row, fields of CSV that pandas reads as something else.
std::vector<std::string> notes_of_rows(const config::Plan& plan, const data::SeenRows& seen,
                                       const RowReading& reading);
// The same of SFT's rows, with what TRL does not apply of tokenized rows.
std::vector<std::string> example_notes(const config::Plan& plan, const data::SeenRows& seen,
                                       const data::DataFacts& facts);
// Into run.start.notes: `notes`, and what of the rows the chat template does not read.
void note_rows(OpenedRun& run, const data::SeenRows& seen, const RowReading& reading,
               std::vector<std::string> notes);

// The table of the columns that the method reads.
const base::ReadKeys& columns_of(config::Method method);

}  // namespace hone::train
