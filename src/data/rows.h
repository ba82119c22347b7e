// JSONL rows, checked: which form they have and where each stands in the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace hone::data {

enum class RowForm { kText, kPromptCompletion, kMessages };

struct Rows {
  base::fs::path path;
  RowForm form = RowForm::kText;
  bool conversational = false;             // messages, or prompt/completion that are lists of messages
  std::string text_field = "text";
  std::vector<base::Json> rows;
  std::vector<int> lines;                  // 1-based line of each row in the file
};

// Reads a .jsonl file (or a folder's train.jsonl). Blank lines are skipped. UserError for: a line that does not parse
// (file:line:column), a row that is not an object, a file without rows, a needed column absent (naming those there),
// a column of the wrong type, rows of mixed form.
Rows read_rows(const base::fs::path& path, const std::string& text_field);

}  // namespace hone::data
