// Arithmetic of plain numbers, as Python reads it.
#include "base/strings/code_points.h"
#include "rewards/math/answer.h"

namespace hone::rewards {

namespace {

using base::is_space;
using base::to_utf8;

constexpr int kMaxPlainDepth = 150;

class PlainParser {
 public:
  explicit PlainParser(const std::u32string& text) : text_(text) {}

  MathPtr parse() {
    MathPtr out = sum();
    blanks();
    return at_ == text_.size() ? out : nullptr;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool take(char32_t c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_power() {
    if (take(U'^')) return true;
    blanks();
    if (text_.compare(at_, 2, U"**") != 0) return false;
    at_ += 2;
    return true;
  }
  bool take_times() {
    blanks();
    return text_.compare(at_, 2, U"**") != 0 && take(U'*');
  }

  MathPtr sum() {
    if (++depth_ > kMaxPlainDepth) return nullptr;
    std::vector<MathPtr> terms;
    for (bool minus = false;; minus = text_[at_ - 1] == U'-') {
      const MathPtr one = product();
      if (!one) return nullptr;
      terms.push_back(minus ? negate(one) : one);
      if (!take(U'-') && !take(U'+')) break;
    }
    --depth_;
    return terms.size() == 1 ? terms[0] : make_math(Math::kAdd, std::move(terms));
  }

  MathPtr product() {
    std::vector<MathPtr> all;
    for (bool over = false;; over = text_[at_ - 1] == U'/') {
      const MathPtr one = factor();
      if (!one) return nullptr;
      all.push_back(over ? make_math(Math::kPower, {one, minus_one()}) : one);
      if (!take(U'/') && !take_times()) break;
    }
    return all.size() == 1 ? all[0] : make_math(Math::kMultiply, std::move(all));
  }

  MathPtr factor() {
    if (++depth_ > kMaxPlainDepth) return nullptr;
    MathPtr out;
    if (take(U'-')) {
      const MathPtr one = factor();
      out = one ? negate(one) : nullptr;
    } else if (take(U'+')) {
      out = factor();
    } else {
      out = atom();
      if (out && take_power()) {
        const MathPtr exponent = factor();
        out = exponent ? make_math(Math::kPower, {out, exponent}) : nullptr;
      }
    }
    --depth_;
    return out;
  }

  MathPtr atom() {
    if (take(U'(')) {
      const MathPtr out = sum();
      return out && take(U')') ? out : nullptr;
    }
    blanks();
    const std::size_t start = at_;
    while (at_ < text_.size() && ((text_[at_] >= U'0' && text_[at_] <= U'9') || text_[at_] == U'.')) ++at_;
    const std::string number = to_utf8(std::u32string_view(text_).substr(start, at_ - start));
    const bool point = number.find('.') != std::string::npos;
    // 007 is no number of Python's.
    if (!point && number.size() > 1 && number[0] == '0' && number.find_first_not_of('0') != std::string::npos)
      return nullptr;
    const auto value = parse_decimal(number);
    return value ? make_number(*value, point) : nullptr;
  }

  const std::u32string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

MathPtr parse_plain_expression(const std::u32string& text) {
  try {
    return PlainParser(text).parse();
  } catch (const MathTooLarge&) {
    return nullptr;
  }
}

}  // namespace hone::rewards
