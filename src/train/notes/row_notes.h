// What the start page says of how rows reach the model, where a person may have meant something else.
#pragma once

#include <string>
#include <vector>

#include "base/read_keys.h"
#include "data/files/row_columns.h"
#include "data/forms/row_facts.h"
#include "train/opening/open_run.h"

namespace hone::train {

// Rows as a method reads them. `forms`: words of config::kRowForms.
struct RowReading {
  const base::ReadKeys& columns;
  std::vector<std::string> forms;
  bool names_unread = true;  // false: other columns go to rewards
};
RowReading prompt_reading(bool conversational);

// What of the rows and of the options that are for rows is not applied (data/files/row_columns.h,
// config/option_table.h): columns that the method does not read, options for rows of other forms, options
// that changed no row, fields of CSV that pandas reads as something else.
std::vector<std::string> notes_of_rows(const config::Plan& plan, const data::SeenRows& seen,
                                       const RowReading& reading);
// The same of rows that became records, with what TRL does not apply of tokenized rows.
std::vector<std::string> record_notes(const config::Plan& plan, const data::SeenRows& seen,
                                      const data::RowFacts& facts);
// Into run.start.notes: `notes`, and what of the rows the chat template does not read.
void note_rows(OpenedRun& run, const data::SeenRows& seen, const RowReading& reading,
               std::vector<std::string> notes);
// Both of rows that became records, and texts and roles that a template would have to know.
void note_records(OpenedRun& run, const data::SeenRows& seen, const data::RowFacts& facts);

// The table of the columns that the method reads.
const base::ReadKeys& columns_of(config::Method method);

}  // namespace hone::train
