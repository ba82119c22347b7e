// The text of a growing list of tokens, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace hone::text {

// A token that ends within a character is held back until the next, so that the concatenated pieces equal the
// decoding of all tokens.
class TextStream {
 public:
  // The tokenizer must outlive it. `skip_special`: special tokens are left out.
  explicit TextStream(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // `ids` is the list before and at least one more.
  std::string next(std::span<const std::int32_t> ids) { return piece(ids, true); }
  // The rest, even if incomplete.
  std::string rest(std::span<const std::int32_t> ids) { return piece(ids, false); }

 private:
  std::string piece(std::span<const std::int32_t> ids, bool whole) {
    constexpr std::string_view kIncomplete = "\xEF\xBF\xBD";  // U+FFFD
    // An incomplete character has at most 3 bytes, so a longer wait is for a character that was never one.
    constexpr std::size_t kLongestWait = 4;
    const std::string before = tokenizer_.decode(ids.subspan(begin_, emitted_ - begin_), skip_special_);
    const std::string now = tokenizer_.decode(ids.subspan(begin_), skip_special_);
    const bool waits = whole && now.ends_with(kIncomplete) && ids.size() - emitted_ < kLongestWait;
    if (waits || now.size() <= before.size()) return "";
    begin_ = emitted_;
    emitted_ = ids.size();
    return now.substr(before.size());
  }

  const Tokenizer& tokenizer_;
  const bool skip_special_;
  // Text of ids[0, emitted_) has been given; decoding begins at begin_, some tokens before: some decoders
  // look at the token before (a space is left out at the beginning of a text).
  std::size_t begin_ = 0, emitted_ = 0;
};

}  // namespace hone::text
