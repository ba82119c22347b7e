#include "text/token_pattern.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings/code_points.h"
#include "base/strings/pattern_states.h"

namespace hone::text {
// Named, since a member of TokenPattern::Impl is of it.
namespace token_pattern {

// What was read: a state of the pattern, and the beginning of a letter.
struct Read {
  base::PatternStates::State state = 0;
  int missing = 0;     // bytes of the letter
  char32_t value = 0;  // its bits so far
  char32_t least = 0;  // what a letter of its length is at least

  auto operator<=>(const Read&) const = default;
  bool dead() const { return state == base::PatternStates::kDead; }
};
inline constexpr Read kNothing = {.state = base::PatternStates::kDead};

}  // namespace token_pattern

namespace {

using base::PatternStates;
using token_pattern::kNothing;
using token_pattern::Read;

constexpr std::size_t kAtOnce = 4096;     // tokens of one decoding
constexpr std::size_t kMostMasks = 1024;  // that are kept; of 50,000 tokens one has 6 KB
constexpr float kForbidden = -std::numeric_limits<float>::infinity();
constexpr char32_t kByteSpace = 0x120, kMetaSpace = 0x2581;  // a space as GPT-2 and as SentencePiece write it

// GPT-2's characters for bytes: printable ones stand for themselves, the others follow from U+0100 on.
std::map<char32_t, char> byte_characters() {
  std::map<char32_t, char> out;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    out[itself ? static_cast<char32_t>(byte) : next] = static_cast<char>(byte);
    next += itself ? 0 : 1;
  }
  return out;
}

std::string of_byte_level(const std::string& token, const std::map<char32_t, char>& bytes) {
  std::string out;
  for (const char32_t c : base::to_code_points(token)) {
    const auto byte = bytes.find(c);
    if (byte == bytes.end()) return token;  // an added token is written as it is
    out += byte->second;
  }
  return out;
}

std::string of_sentence_piece(const std::string& token) {
  if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>')) {
    int byte = 0;
    if (std::from_chars(token.data() + 3, token.data() + 5, byte, 16).ptr == token.data() + 5)
      return {static_cast<char>(byte)};
  }
  std::u32string text = base::to_code_points(token);
  std::replace(text.begin(), text.end(), kMetaSpace, U' ');
  return base::to_utf8(text);
}

// Special tokens among [begin, end) are those that decoding can leave out; halves without any are decoded together,
// since a call takes as long as hundreds of tokens.
void mark_special(const Tokenizer& tokenizer, std::size_t begin, std::size_t end,
                  std::vector<bool>& special) {
  std::vector<std::int32_t> ids(end - begin);
  std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(begin));
  if (tokenizer.decode(ids, true) == tokenizer.decode(ids, false)) return;
  if (end - begin == 1) {
    special[begin] = true;
    return;
  }
  const std::size_t middle = begin + (end - begin) / 2;
  mark_special(tokenizer, begin, middle, special);
  mark_special(tokenizer, middle, end, special);
}

// After one more byte of UTF-8.
Read after_byte(PatternStates& states, const Read& read, unsigned char byte) {
  if (read.missing > 0) {
    if ((byte & 0xC0U) != 0x80U) return kNothing;
    Read out = read;
    out.missing -= 1;
    out.value = read.value << 6U | (byte & 0x3FU);
    if (out.missing > 0) return out;
    const bool letter =
        out.value >= out.least && out.value <= 0x10FFFF && (out.value < 0xD800 || out.value > 0xDFFF);
    return letter ? Read{.state = states.next(read.state, out.value)} : kNothing;
  }
  if (byte < 0x80) return {.state = states.next(read.state, byte)};
  if (byte >= 0xC2 && byte <= 0xDF) return {read.state, 1, byte & 0x1FU, 0x80};
  if ((byte & 0xF0U) == 0xE0U) return {read.state, 2, byte & 0x0FU, 0x800};
  if (byte >= 0xF0 && byte <= 0xF4) return {read.state, 3, byte & 0x07U, 0x10000};
  return kNothing;
}

}  // namespace

std::vector<std::string> token_bytes(const Tokenizer& tokenizer) {
  std::vector<std::optional<std::string>> tokens;
  bool byte_level = false;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(tokenizer.vocab_size()); ++id) {
    tokens.push_back(tokenizer.id_to_token(id));
    if (!tokens.back()) continue;
    byte_level = byte_level || base::to_code_points(*tokens.back()).find(kByteSpace) != std::u32string::npos;
  }
  const std::map<char32_t, char> bytes = byte_characters();
  std::vector<std::string> out(tokens.size());
  std::vector<bool> special(tokens.size());
  for (std::size_t begin = 0; begin < tokens.size(); begin += kAtOnce) {
    mark_special(tokenizer, begin, std::min(begin + kAtOnce, tokens.size()), special);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i] || special[i]) continue;
    out[i] = byte_level ? of_byte_level(*tokens[i], bytes) : of_sentence_piece(*tokens[i]);
  }
  return out;
}

TokenTexts::TokenTexts(const Tokenizer& tokenizer) : bytes(token_bytes(tokenizer)) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!bytes[i].empty()) sorted.push_back(static_cast<std::int32_t>(i));
  }
  const auto text = [this](std::int32_t id) -> const std::string& {
    return bytes[static_cast<std::size_t>(id)];
  };
  std::sort(sorted.begin(), sorted.end(), [&](std::int32_t a, std::int32_t b) { return text(a) < text(b); });
}

struct TokenPattern::Impl {
  std::shared_ptr<const TokenTexts> texts;
  PatternStates states;
  std::map<Read, std::vector<bool>> masks;  // of what was asked for
  std::map<Read, bool> useful_letters;
  std::mutex mutex;

  Impl(std::shared_ptr<const TokenTexts> given, const std::string& expression, const std::string& where,
       std::size_t most_states)
      : texts(std::move(given)), states(expression, where, most_states) {}

  const std::string& of(std::int32_t id) const { return texts->bytes[static_cast<std::size_t>(id)]; }

  Read walk(std::span<const std::int32_t> ids) {
    Read read{.state = states.start()};
    for (const std::int32_t id : ids) {
      if (id < 0 || static_cast<std::size_t>(id) >= texts->bytes.size()) continue;
      for (const char byte : of(id)) {
        if (!read.dead()) read = after_byte(states, read, static_cast<unsigned char>(byte));
      }
    }
    return read;
  }

  // A begun letter is useful where one that begins so leads on.
  bool is_useful(const Read& read) {
    if (read.dead() || read.missing == 0) return !read.dead();
    const auto known = useful_letters.find(read);
    if (known != useful_letters.end()) return known->second;
    const auto open = static_cast<unsigned>(6 * read.missing);
    const char32_t first = read.value << open, last = first | ((char32_t{1} << open) - 1);
    const bool useful =
        states.goes_on(read.state, std::max(first, read.least), std::min<char32_t>(last, 0x10FFFF));
    return useful_letters[read] = useful;
  }

  const std::vector<bool>& mask(const Read& from) {
    const auto known = masks.find(from);
    if (known != masks.end()) return known->second;
    std::vector<bool> out(texts->bytes.size());
    std::vector<Read> path = {from};  // after each byte of the token before
    std::string_view before;
    for (const std::int32_t id : texts->sorted) {
      const std::string_view token = of(id);
      const auto differ = std::mismatch(token.begin(), token.end(), before.begin(), before.end()).first;
      const auto shared = static_cast<std::size_t>(differ - token.begin());
      if (path.size() > shared + 1) path.resize(shared + 1);
      while (path.size() <= token.size() && !path.back().dead()) {
        path.push_back(after_byte(states, path.back(), static_cast<unsigned char>(token[path.size() - 1])));
      }
      before = token;
      if (path.size() == token.size() + 1) out[static_cast<std::size_t>(id)] = is_useful(path.back());
    }
    if (masks.size() >= kMostMasks) masks.clear();
    return masks.emplace(from, std::move(out)).first->second;
  }
};

TokenPattern::TokenPattern(const Tokenizer& tokenizer, const std::string& expression,
                           const std::string& option)
    : TokenPattern(std::make_shared<const TokenTexts>(tokenizer), expression, "option " + option,
                   PatternStates::kMaxStates) {}
TokenPattern::TokenPattern(std::shared_ptr<const TokenTexts> texts, const std::string& expression,
                           const std::string& where, std::size_t most_states)
    : impl_(std::make_unique<Impl>(std::move(texts), expression, where, most_states)) {}
TokenPattern::~TokenPattern() = default;
TokenPattern::TokenPattern(TokenPattern&&) noexcept = default;
TokenPattern& TokenPattern::operator=(TokenPattern&&) noexcept = default;

std::size_t TokenPattern::states() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->states.size();
}

void TokenPattern::constrain(std::span<const std::int32_t> ids, std::span<const std::int64_t> stop_ids,
                             std::span<float> scores) const {
  const auto valid = [&](std::int64_t id) { return id >= 0 && static_cast<std::size_t>(id) < scores.size(); };
  std::vector<float> stops;  // before they are forbidden with all that have no text
  for (const std::int64_t id : stop_ids) {
    stops.push_back(valid(id) ? scores[static_cast<std::size_t>(id)] : kForbidden);
  }
  bool any = false, whole = false;
  {
    const std::lock_guard lock(impl_->mutex);
    const Read read = impl_->walk(ids);
    whole = read.missing == 0 && impl_->states.accepts(read.state);
    const std::vector<bool>& allowed = impl_->mask(read);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (i >= allowed.size() || !allowed[i]) scores[i] = kForbidden;
      any = any || scores[i] != kForbidden;
    }
  }
  for (std::size_t k = 0; k < stops.size(); ++k) {
    if (!valid(stop_ids[k])) continue;
    scores[static_cast<std::size_t>(stop_ids[k])] = whole ? stops[k] : kForbidden;
    any = any || (whole && stops[k] != kForbidden);
  }
  if (any) return;
  const auto stop = std::find_if(stop_ids.begin(), stop_ids.end(), valid);
  base::require(stop != stop_ids.end(), "text::TokenPattern", "a stop token");
  scores[static_cast<std::size_t>(*stop)] = 0;
}

}  // namespace hone::text
