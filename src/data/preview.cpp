#include "data/preview.h"

#include <cstddef>
#include <span>

namespace hone::data {

std::vector<PreviewPiece> preview(const ExampleView& example, const text::Tokenizer& tokenizer) {
  std::vector<PreviewPiece> pieces;
  const auto target = [&](std::size_t i) { return i > 0 && example.supervised[i] != 0; };
  for (std::size_t begin = 0, end = 0; begin < example.ids.size(); begin = end) {
    while (end < example.ids.size() && target(end) == target(begin)) ++end;
    const std::span<const std::int32_t> run = example.ids.subspan(begin, end - begin);
    pieces.push_back({tokenizer.decode(run, /*skip_special=*/false), target(begin)});
  }
  return pieces;
}

}  // namespace hone::data
