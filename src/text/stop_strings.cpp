#include "text/stop_strings.h"

#include <algorithm>

namespace hone::text {

bool ends_with_stop(std::span<const std::int32_t> ids, const std::vector<std::string>& stops,
                    const Tokenizer& tokenizer) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  // A token has at least a byte of text, so a stop string with the last token in it begins within these; some
  // more, since a character that is cut at the first of them is not itself.
  const std::string text = tokenizer.decode(ids.last(std::min(ids.size(), longest + 8)), false);
  return std::any_of(stops.begin(), stops.end(),
                     [&](const std::string& stop) { return text.find(stop) != std::string::npos; });
}

}  // namespace hone::text
