// The text of a split: "train", "train[:10%]", "train[10:20]+test[-50:]", "train[:33%](pct1_dropremainder)".
#pragma once

#include <string>
#include <vector>

#include "base/row_files.h"

namespace hone::config {

// The parts, in order, without their files (datasets/arrow_reader.py, ReadInstruction.from_spec). UserError for
// text of another form, and for percents outside -100 to 100.
std::vector<base::RowPart> parse_split(const std::string& text, const std::string& where);

}  // namespace hone::config
