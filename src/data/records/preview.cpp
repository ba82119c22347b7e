#include "data/records/preview.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace hone::data {
namespace {

constexpr std::size_t kLongestCharacter = 4;  // bytes of UTF-8; a token holds at least one
constexpr const char* kReplacement = "\xef\xbf\xbd";

// The token before or at `end` with which a character begins: where a piece ends within one, the next piece
// shows all of it.
std::size_t character_begin(std::span<const std::int32_t> ids, std::size_t begin, std::size_t end,
                            const text::Tokenizer& tokenizer) {
  const auto decoded = [&](std::size_t from, std::size_t to) {
    return tokenizer.decode(ids.subspan(from, std::min(to, ids.size()) - from), /*skip_special=*/false);
  };
  if (end == ids.size() || !decoded(begin, end).ends_with(kReplacement)) return end;
  for (std::size_t from = end; from > begin && end - from < kLongestCharacter; --from) {
    if (!decoded(from - 1, from).ends_with(kReplacement)) return end;
    if (!decoded(from - 1, end + kLongestCharacter - 1).starts_with(kReplacement)) return from - 1;
  }
  return end;
}

}  // namespace

std::vector<PreviewPiece> preview(const RecordView& example, const text::Tokenizer& tokenizer) {
  std::vector<PreviewPiece> pieces;
  const auto target = [&](std::size_t i) { return i > 0 && example.supervised[i] != 0; };
  std::size_t from = 0;  // not shown yet
  for (std::size_t begin = 0, end = 0; begin < example.ids.size(); begin = end) {
    while (end < example.ids.size() && target(end) == target(begin)) ++end;
    const std::size_t to = character_begin(example.ids, from, end, tokenizer);
    if (to == from) continue;
    pieces.push_back(
        {tokenizer.decode(example.ids.subspan(from, to - from), /*skip_special=*/false), target(begin)});
    from = to;
  }
  return pieces;
}

}  // namespace hone::data
