// LaTeX as models write it to the LaTeX that the parser takes.
#include <algorithm>
#include <array>

#include "base/strings/code_points.h"
#include "base/strings/pattern.h"
#include "rewards/math/answer.h"
#include "rewards/math/lexer.h"

namespace hone::rewards {

namespace {

using base::is_space;
using base::Match;
using base::Pattern;
using Text = std::u32string;
using View = std::u32string_view;

void replace_all(Text& text, View from, View to) {
  std::size_t at = text.find(from);
  if (at == Text::npos) return;
  Text out;
  std::size_t done = 0;
  for (; at != Text::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = std::move(out.append(text, done));
}

// ---- \boxed

// The place of the brace that closes the one at `open`, before `end`; npos: none.
std::size_t closing_brace(View text, std::size_t open, std::size_t end) {
  int depth = 0;
  for (std::size_t i = open; i < end; ++i) {
    if (text[i] == U'{') ++depth;
    if (text[i] == U'}' && --depth == 0) return i;
  }
  return Text::npos;
}

// Two boxes belong together when little stands between them, or a little more with an "and", "or", ',' or
// ';'.
bool belong_together(View between, const Text& content, const Text& next) {
  if (between.size() < 10) return true;
  static const Pattern separator(R"(\b(?:and|or)\b|,|;)");
  return content != next && between.size() < 70 && separator.search(between).has_value();
}

// The contents of all boxes, joined by commas; kLast: of the last and those that belong to it. No box: the
// text.
Text boxed_content(const Text& text, Boxed boxed) {
  std::vector<Text> found;  // from right to left
  std::size_t end = text.size();
  std::size_t next_start = Text::npos;
  constexpr View kBoxWord = U"\\boxed";
  constexpr View kFrameWord = U"\\fbox";
  std::size_t box = text.rfind(kBoxWord);
  std::size_t frame = text.rfind(kFrameWord);
  for (std::size_t from = text.size();;) {
    // The last that ends at `from` at most; one that does already is not looked for again.
    const auto before = [&](std::size_t known, View word) {
      if (known == Text::npos || known + word.size() <= from) return known;
      return from < word.size() ? Text::npos : text.rfind(word, from - word.size());
    };
    box = before(box, kBoxWord);
    frame = before(frame, kFrameWord);
    if (box == Text::npos && frame == Text::npos) break;
    const bool is_box = frame == Text::npos || (box != Text::npos && box > frame);
    const std::size_t start = is_box ? box : frame;
    std::size_t open = start + (is_box ? 6 : 5);
    while (open < end && is_space(text[open])) ++open;
    if (open >= end) break;
    const std::size_t close = text[open] == U'{' ? closing_brace(text, open, end) : Text::npos;
    if (close == Text::npos) {  // \boxed 5, or a brace that never closes
      if (found.empty()) found.push_back(text.substr(open));
      break;
    }
    Text content(base::stripped(View(text).substr(open + 1, close - open - 1)));
    if (boxed == Boxed::kLast && next_start != Text::npos) {
      const View between =
          close + 1 < next_start ? View(text).substr(close + 1, next_start - close - 1) : View();
      if (!belong_together(between, content, found.empty() ? Text() : found.back())) break;
    }
    if (found.empty() || found.back() != content) found.push_back(std::move(content));
    next_start = end = from = start;
  }
  if (found.empty()) return text;
  Text out;
  for (auto one = found.rbegin(); one != found.rend(); ++one)
    out += (one == found.rbegin() ? Text() : Text(U",")) + *one;
  return out;
}

// ---- commands

// \left( and \right): the delimiter stays.
Text without_sizes(const Text& text, long& steps) {
  static const Pattern left(
      R"(\\m?left(\\\{|\{|\\\||\||\[|\(|\\rbracl|\\lgroup|\\lbrace|\\lbrack|\\vert|\\lvert|\\lceil|\\lfloor|\\langle|\\llcorner|\\ulcorner))");
  static const Pattern right(
      R"(\\m?right(\\\}|\}|\\\||\||\]|\)|\\rbrack|\\rgroup|\\rbrace|\\vert|\\rvert|\\rceil|\\rfloor|\\rangle|\\lrcorner|\\urcorner))");
  return right.replace(left.replace(text, U"\\1", steps), U"\\1", steps);
}

struct Replacement {
  const char* pattern;
  const char32_t* with;
};

// In order of precedence at one place.
constexpr std::array kReplacements = {
    Replacement{R"(\\math(?:rm|it|bf))", U"\\text"},
    Replacement{R"(\\text(?:normal|bf|it|rm))", U"\\text"},
    Replacement{R"(\\(?:d|t|c)frac)", U"\\frac"},
    Replacement{R"(\s\.)", U" 0."},
    Replacement{R"(\{\.)", U"{0."},
    Replacement{R"(~=)", U"\\approx"},
    Replacement{R"(\s*\{\s*,\s*\})", U","},
    Replacement{R"((?<![a-zA-Z]),?\s*(?:and|or)(?![a-zA-Z]))", U","},
    Replacement{R"(,?\s*\\text{\s*(?:and|or)\s*})", U","},
    Replacement{R"((?<!\\)\\\s)", U" "},
    Replacement{R"(infinity)", U"\\infty"},
    Replacement{R"(,?\\ldots)", U" "},
    Replacement{R"(\s*\bpercentage\b)", U"\\%"},
    Replacement{R"(\\text{percentage})", U"%"},
    Replacement{R"(\s*\bpercent\b)", U"\\%"},
    Replacement{R"(\\text{percent})", U"%"},
    Replacement{R"(\s*\bpct\b)", U"\\%"},
    Replacement{R"(\\text{pct})", U"%"},
    Replacement{R"((?<!\\)inf(?!inity))", U"\\infty"},
    Replacement{R"( sqrt)", U"\\sqrt"},
};

Text replace_commands(const Text& text, long& steps) {
  static const Pattern any = [] {
    std::string all;
    for (const auto& one : kReplacements) all += (all.empty() ? "(" : "|(") + std::string(one.pattern) + ")";
    return Pattern(all);
  }();
  Text out;
  std::size_t from = 0;
  any.for_each_match(text, steps, [&](const Match& one) {
    out.append(text, from, one.begin() - from);
    for (std::size_t i = 0; i < kReplacements.size(); ++i)
      if (one.has(static_cast<int>(i) + 1)) out += kReplacements[i].with;
    from = one.end();
  });
  return out + text.substr(from);
}

// ---- units

// The words that math_verify takes for units; one of them (also with s or es) is dropped at the end after a
// digit, a brace or a space.
constexpr const char* kUnits =
    "integerpoint|feet|sue|digit|pound|meal|edge|student|children ticket|multiple|east|degree|mph|kmph|ft|"
    "m square| m east|sq m|deg|mile|q .|monkey|prime|ratio|profit of rs|rd|o|gm|p . m|lb|tile|per|dm|lt|gain|"
    "ab|way|west|a .|b .|c .|d .|e .|f .|g .|h .|t|h|no change|men|soldier|pie|bc|excess|st|inches|noon|cent|"
    "by|gal|kmh|c|acre|rise|a . m|th|π r 2|sq|mark|l|toy|coin|sq . m|gallon|° f|profit|minw|yr|women|am|pm|"
    "hr|cu cm|square|are|rupee|rounds|cubic|cc|mtr|s|ohm|number|day|hour|minute|min|second|man|woman|sec|"
    "cube|mt|sq inch|mp|∏ cm ³|hectare|more|unit|cu . m|cm 2|rs .|rs|kg|g|month|km|m|cm|mm|apple|liter|loss|"
    "yard|pure|year|increase|decrease|d|less|Surface|litre|pi sq m|s .|metre|meter|inch";

Text without_units(Text text, long& steps) {
  static const Pattern in_text(R"((\\(?:text|mbox){.*?})(\^\d|\{\^\d\})?$)");
  static const Pattern at_end("(\\d|\\}|\\s)\\s*(?:" + std::string(kUnits) + ")(?:s|es)?\\s*$");
  Text shorter(base::stripped(in_text.replace(text, U"", steps)));
  if (!shorter.empty()) text = shorter;
  for (int i = 0; i < 2; ++i) {
    shorter = at_end.replace(text, U"\\1", steps);
    if (!shorter.empty()) text = shorter;
  }
  return text;
}

// ---- mending

// \sqrt3 -> \sqrt{3}: the character after the command gets braces.
Text brace_roots(const Text& text, long& steps) {
  static const Pattern bare(R"(\\sqrt\s*([^{\[\s]))");
  static const Pattern spaces(R"(\\sqrt\s+)");
  return spaces.replace(bare.replace(text, U"\\sqrt{\\1}", steps), U"\\sqrt", steps);
}

// \frac12 -> \frac{1}{2}: both arguments get braces. A \frac with less than two characters after it: nothing
// changes.
Text brace_fractions(const Text& text) {
  constexpr View kCommand = U"\\frac";
  std::size_t at = text.find(kCommand);
  if (at == Text::npos) return text;
  Text out = text.substr(0, at);
  while (at != Text::npos) {
    const std::size_t next = text.find(kCommand, at + kCommand.size());
    Text rest = text.substr(at + kCommand.size(), next == Text::npos ? next : next - at - kCommand.size());
    rest.erase(0, std::min(rest.size(), static_cast<std::size_t>(std::ranges::find_if_not(rest, is_space) -
                                                                 rest.begin())));
    out += kCommand;
    if (rest.starts_with(U'{')) {
      out += rest;
    } else if (rest.size() < 2) {
      return text;
    } else {
      out += Text(U"{") + rest[0] + U"}";
      out += rest[1] == U'{' ? Text(1, rest[1]) : Text(U"{") + rest[1] + U"}";
      out += rest.substr(2);
    }
    at = next;
  }
  return out;
}

// 2/3 alone -> \frac{2}{3}, when both are written as integers are printed.
Text slash_fraction(const Text& text) {
  static const Pattern whole(R"((0|-?[1-9]\d*)/(0|-?[1-9]\d*)\Z)");
  const auto found = whole.match(text);
  return found ? whole.replace(text, U"\\frac{\\1}{\\2}") : text;
}

struct Repair {
  Pattern pattern;
  const char32_t* with;
};

Text repaired(Text text, long& steps) {
  static const std::vector<Repair> repairs = {
      {Pattern(R"(\^\s?\((.*?)\))"), U"^{\\1}"},
      {Pattern(R"(sqrt\s?\((.*?)\))"), U"\\sqrt{\\1}"},
      {Pattern(R"(\\frac\s?(\d)\s?(\d+))"), U"\\frac{\\1}{\\2}"},
      {Pattern(R"(\\log_\s?(\d)\s?(\d+))"), U"\\log_{\\1}{\\2}"},
      {Pattern(R"(\\frac\s?{(.*?)}\s?(\d))"), U"\\frac{\\1}{\\2}"},
      {Pattern(R"(\\frac\s?(\d)\s?{(.*?)})"), U"\\frac{\\1}{\\2}"},
      {Pattern(R"(\\sqrt\s?(\d))"), U"\\sqrt{\\1}"},
  };
  for (const Repair& one : repairs) text = one.pattern.replace(text, one.with, steps);
  replace_all(text, U" sqrt", U"\\sqrt");
  return slash_fraction(brace_fractions(brace_roots(text, steps)));
}

}  // namespace

Text normalize_latex(Text text, Boxed boxed, bool repair, long& steps) {
  static const Pattern dropped(
      R"(\\mathrm\{th\}|\\!\s*|\\text\s*\{\s*\}|\\\$|\$|(?<!\\)["']|\\displaystyle)");
  text = boxed_content(text, boxed);
  replace_all(text, U"\\mathrm{T}", U"T");
  replace_all(text, U"\\mathrm{d}", U"d");
  replace_all(text, U"{\\rm d}", U"d");
  replace_all(text, U"\\left[\\begin{matrix}", U"\\begin{bmatrix}");
  replace_all(text, U"\\end{matrix}\\right]", U"\\end{bmatrix}");
  text = replace_commands(dropped.replace(without_sizes(text, steps), U"", steps), steps);
  std::ranges::replace_if(text, [](char32_t c) { return c == U'\n' || c == U'\t'; }, U' ');
  if (text.find(U"matrix") == Text::npos) {  // \\frac -> \frac
    Text out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text.compare(i, 2, U"\\\\") == 0 && i + 2 < text.size() && is_letter(text[i + 2])) ++i;
      out += text[i];
    }
    text = std::move(out);
  }
  text = without_units(std::move(text), steps);
  if (repair) {
    if (text.starts_with(U'.')) text.insert(0, 1, U'0');
    if (text == U"0.5") text = U"\\frac{1}{2}";
    text = repaired(std::move(text), steps);
  }
  return Text(base::stripped(text));
}

}  // namespace hone::rewards
