// One example as text, piece by piece, with which pieces are targets: for the colored example before step 1.
#pragma once

#include <string>
#include <vector>

#include "data/records/records.h"
#include "text/tokenizer.h"

namespace hone::data {

struct PreviewPiece {
  // Special tokens included; the text of neighboring tokens with the same flag, in whole characters.
  std::string text;
  bool supervised = false;  // a target; the first token never is
};

std::vector<PreviewPiece> preview(const RecordView& example, const text::Tokenizer& tokenizer);

}  // namespace hone::data
