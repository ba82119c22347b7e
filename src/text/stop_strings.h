// These find where a text that grows token by token is to stop.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace hone::text {

// Does the text of `ids` hold one of `stops`, with its last token as a part? (StopStringCriteria of
// transformers; asked after each token, so that the first occurrence is found.) Special tokens count as their
// text.
bool ends_with_stop(std::span<const std::int32_t> ids, const std::vector<std::string>& stops,
                    const Tokenizer& tokenizer);

}  // namespace hone::text
