#include "config/others/shell_sum.h"

#include <cctype>

namespace hone::config {
namespace {

constexpr std::int64_t kMost = 1'000'000'000;  // no count of a run is above it
constexpr int kMostNesting = 20;

class Sum {
 public:
  Sum(std::string_view text, const std::function<std::string(const std::string&)>& value_of)
      : text_(text), value_of_(value_of) {}

  std::optional<std::int64_t> whole() {
    const std::int64_t out = terms();
    skip();
    if (!good_ || at_ != text_.size()) return std::nullopt;
    return out;
  }

 private:
  void skip() {
    const auto names = [&] {
      const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '{';
    };
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\\' || text_[at_] == '"' || (text_[at_] == '$' && names())))
      ++at_;
  }
  char next() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  std::int64_t terms() {
    std::int64_t out = factors();
    for (char c = next(); good_ && (c == '+' || c == '-'); c = next()) {
      ++at_;
      const std::int64_t other = factors();
      out = bounded(c == '+' ? out + other : out - other);
    }
    return out;
  }

  std::int64_t factors() {
    std::int64_t out = value();
    for (char c = next(); good_ && (c == '*' || c == '/' || c == '%'); c = next()) {
      ++at_;
      const std::int64_t other = value();
      if (c != '*' && other == 0) good_ = false;
      if (!good_) return 0;
      out = bounded(c == '*' ? out * other : c == '/' ? out / other : out % other);
    }
    return out;
  }

  std::int64_t value() {
    const char c = next();
    if (c == '(' || c == '{') return inside(c == '(' ? ')' : '}');
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return number(text_, at_);
    std::string name;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      name += text_[at_++];
    const std::string found = name.empty() ? "" : value_of_(name);
    std::size_t end = 0;
    const std::int64_t out = found.empty() ? 0 : number(found, end);
    if (found.empty() || end != found.size()) good_ = false;
    return out;
  }

  std::int64_t inside(char close) {
    if (++depth_ > kMostNesting) good_ = false;
    ++at_;
    const std::int64_t out = good_ ? terms() : 0;
    if (next() != close) good_ = false;
    ++at_;
    --depth_;
    return out;
  }

  std::int64_t number(std::string_view text, std::size_t& at) {
    std::int64_t out = 0;
    const std::size_t begin = at;
    for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; ++at)
      out = bounded(out * 10 + (text[at] - '0'));
    if (at == begin) good_ = false;
    return out;
  }

  std::int64_t bounded(std::int64_t value) {
    if (value > kMost || value < -kMost) good_ = false;
    return good_ ? value : 0;
  }

  std::string_view text_;
  const std::function<std::string(const std::string&)>& value_of_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool good_ = true;
};

}  // namespace

std::optional<std::int64_t> shell_sum(std::string_view text,
                                      const std::function<std::string(const std::string&)>& value_of) {
  return Sum(text, value_of).whole();
}

}  // namespace hone::config
