#include "rewards/math/answer.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings/code_points.h"
#include "base/strings/pattern.h"
#include "rewards/math/compare.h"
#include "rewards/math/lexer.h"

namespace hone::rewards {

namespace {

using base::is_space;
using base::Match;
using base::Pattern;
using base::to_code_points;
using base::to_utf8;

constexpr int kNext = 5;  // "1, 2 and 3": how many more environments belong to one answer

// LaTeX between delimiters, as named groups <prefix>_a, _b ...; with `boxed`, only what holds a \boxed.
std::string environment(const std::string& prefix, bool boxed) {
  int count = 0;
  const auto part = [&](const std::string& open, const std::string& one, const std::string& close) {
    const std::string body = boxed ? one + "*?\\\\boxed{" + one + "+?}" + one + "*?" : one + "+?";
    return open + "(?P<" + prefix + "_" + std::string(1, static_cast<char>('a' + count++)) + ">" + body +
           ")" + close;
  };
  std::string out = part(R"((?<!\\)\$\$)", R"((?:[^$]|\$(?!\$)))", R"((?<!\\)\$\$)");
  out += "|" + part(R"((?<!\\)\\\[)", R"((?:[^\\]|\\(?!\])))", R"((?<!\\)\\\])");
  out += "|" + part(R"((?<!\\|\d)\$)", R"((?:\\[$]|[^\n$]))", R"((?<!\\)\$)");
  out += "|" + part(R"((?<!\\)\\\()", R"((?:[^\\\n]|\\(?!\))))", R"((?<!\\)\\\))");
  out += "|" + part(R"(\s\[)", R"([^\n\]\[])", R"(\]\s)");
  const std::string number = R"(-?\d+(?:[.,]\d+)?)";
  if (!boxed) out += "|(?P<" + prefix + "_f>-?\\\\frac{" + number + "}{" + number + "})";
  return "(?:(?:" + out + ")\\s*(?P<" + prefix + "_percent>\\\\?%|[Pp]ercent|[Pp]ercentage|[Pp]ct)?)";
}

std::string environments(bool boxed) {
  std::string out = environment("n0", boxed);
  for (int i = 1; i <= kNext; ++i) {
    const std::string next =
        R"((?:\s*(?:,?and|,?or|,)\s*)" + environment("n" + std::to_string(i), boxed) + ")?";
    out += (boxed ? "\\s*" : "") + next;
  }
  return "(?:" + out + ")";
}

// A plain number, or an expression of numbers.
std::string plain_answer(bool expressions, bool numbers) {
  const std::string operators = "\\+\\-\\*×\\/\\^\\(\\)÷";
  const std::string any = "[\\d\\.\\s" + operators + "]";
  const std::string before = R"((?:^|\s|\=)(?:\*\*)?)";
  const std::string expression = "(?:" + before + "(?P<expr>-?\\(?-?\\d" + any + "*[" + operators + "]" +
                                 any + "+\\)?)(?:\\*\\*)?(?:\\.|,|:|\\s|\\)|\\$|$))";
  std::string number = "(?:" + before +
                       R"([$€£¥₹₽₪₩₫฿₡₢₣₤₥₦₧₨₭₮₯₰₱₲₳₴₵₶₷₸₺₻₼₾₿]?(?<!\d)(?:)"
                       R"((?P<grouped>-?[1-9]\d{0,2}(?:[ ,]\d{3})+)(?P<grouped_decimal>\.\d+)?|)"
                       R"((?P<whole>-?\d+)(?P<decimal>[.,]\d+)|(?P<only_decimal>\.\d+)|(?P<integer>-?\d+)))"
                       R"((?P<percent>\s*(?:%|[Pp]ercent|\s*[Pp]ercentage|\s*[Pp]ct))?))";
  if (!expressions) return number;
  return numbers ? "(?:" + expression + "|" + number + ")" : expression;
}

struct Rule {
  Pattern pattern;
  int priority;
  bool latex;
};

struct RuleTraits {
  bool gold;           // LaTeX anywhere, and repaired; else only \\boxed and what follows "answer"
  bool plain;          // numbers and expressions without LaTeX
  bool first;          // math_verify's first_match: the first match counts, whether it can be read or not
  bool last_equation;  // of a chain a = b = c, c
};

constexpr RuleTraits traits_of(AnswerRules kind) {
  switch (kind) {
    case AnswerRules::kGold:
      return {.gold = true, .plain = true, .first = false, .last_equation = false};
    case AnswerRules::kCompletion:
      return {.gold = false, .plain = false, .first = true, .last_equation = false};
    case AnswerRules::kFirstGold:
      return {.gold = true, .plain = true, .first = true, .last_equation = false};
    case AnswerRules::kFirstLatexGold:
      return {.gold = true, .plain = false, .first = true, .last_equation = false};
    case AnswerRules::kFirstCompletion:
      break;
  }
  return {.gold = false, .plain = false, .first = true, .last_equation = true};
}

std::vector<Rule> make_rules(bool gold, bool plain_too) {
  std::vector<Rule> out;
  const auto latex = [&out](const std::string& text, int priority) {
    out.push_back({Pattern(text, {.dot_all = true}, "LaTeX"), priority, true});
  };
  const std::string env = environments(false);
  latex("(?i:final answer is):?\\s*" + env + "\\.?\\s?I hope", 0);
  latex("(?i:final answer.{0,100}?)\\s+is:?\\s*" + env, 50);
  latex("(?i:answer):.{0,50}?" + env, 100);
  latex("(?i:answer).{0,50}?" + env, 200);
  if (gold) latex(env, 300);
  latex(environments(true), gold ? 50 : 0);
  latex(R"((?P<boxed>\\boxed{.+}))", gold ? 50 : 0);
  if (plain_too) {
    const auto plain = [&out](const std::string& text, int priority) {
      out.push_back({Pattern(text, {}, "number"), priority, false});
    };
    const std::string any = plain_answer(true, true);
    plain("(?i:final answer is):?\\s*" + any + "\\.?\\s?I hope", 0);
    plain("(?i:final answer.{0,100}?)\\s+is:?" + any, 50);
    plain("(?i:answer):(?:.{0,100}=\\s*|.{0,50}?)" + any + "(?!\\s*=)", 100);
    plain("(?i:answer)(?:.{0,100}=\\s*|.{0,50}?)" + any + "(?!\\s*=)", 200);
    plain(plain_answer(true, false), 300);
    plain(plain_answer(false, true), 300);
  }
  std::ranges::stable_sort(out, {}, &Rule::priority);
  return out;
}

const std::vector<Rule>& rules_of(AnswerRules kind) {
  static const std::vector<Rule> gold = make_rules(true, true);
  static const std::vector<Rule> latex = make_rules(true, false);
  static const std::vector<Rule> completion = make_rules(false, false);
  const RuleTraits traits = traits_of(kind);
  if (!traits.gold) return completion;
  return traits.plain ? gold : latex;
}

std::u32string_view named(const Rule& rule, const Match& match, std::u32string_view text,
                          const std::string& name) {
  const auto found = rule.pattern.groups().find(name);
  return found == rule.pattern.groups().end() ? std::u32string_view() : match.text(text, found->second);
}

// What stands after the last "=" of a chain of more than one; lists are left alone.
std::u32string last_equation(const std::u32string& text) {
  if (text.find_first_of(U",;") != std::u32string::npos) return text;
  std::size_t count = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != U'=' ||
        (i > 0 && std::u32string_view(U"\\<!>").find(text[i - 1]) != std::u32string_view::npos))
      continue;
    ++count;
    last = i + 1;
  }
  return count > 1 ? text.substr(last) : text;
}

MathPtr parse_latex_or_last(const std::u32string& text, MathBudget& budget) {
  if (MathPtr out = parse_latex(text, budget)) return out;
  const std::u32string last = last_equation(text);
  return last == text ? nullptr : parse_latex(last, budget);
}

// All parts joined: "1, 2 and 3" is a set. Otherwise the first.
MathCandidate read_latex(const Rule& rule, const Match& match, std::u32string_view text,
                         const RuleTraits& traits, MathBudget& budget) {
  std::vector<MathCandidate> all;
  const auto add = [&](std::u32string_view part, Boxed boxed, bool percent) {
    std::u32string normal = normalize_latex(std::u32string(part), boxed, traits.gold, budget.steps);
    if (traits.last_equation) normal = base::stripped(last_equation(normal));
    MathPtr value = parse_latex_or_last(normal, budget);
    if (value && percent) value = make_math(Math::kPercent, {value});
    all.push_back({value, normal, !value && is_undecided_latex(normal)});
  };
  if (const auto boxed = named(rule, match, text, "boxed"); !boxed.empty()) add(boxed, Boxed::kLast, false);
  for (int i = 0; i <= kNext; ++i) {
    const std::string prefix = "n" + std::to_string(i) + "_";
    for (const char* const letter : {"a", "b", "c", "d", "e", "f"}) {
      const auto part = named(rule, match, text, prefix + letter);
      if (part.empty()) continue;
      add(part, Boxed::kAll, !named(rule, match, text, prefix + "percent").empty());
      break;
    }
  }
  if (all.empty()) return {};
  if (all.size() == 1 || !std::ranges::all_of(all, [](const auto& one) { return one.value != nullptr; })) {
    all[0].is_undecided = std::ranges::any_of(all, &MathCandidate::is_undecided) && !all[0].value;
    return all[0];
  }
  std::vector<MathPtr> elements;
  std::u32string joined;
  for (const auto& one : all) {
    if (!joined.empty()) joined += U" and ";
    joined += one.text;
    if (one.value->kind == Math::kSet) {
      elements.insert(elements.end(), one.value->args.begin(), one.value->args.end());
    } else {
      elements.push_back(one.value);
    }
  }
  return {.value = make_math(Math::kSet, elements), .text = joined};
}

MathCandidate read_plain(const Rule& rule, const Match& match, std::u32string_view text) {
  const auto group = [&](const char* name) { return to_utf8(named(rule, match, text, name)); };
  std::string whole = group("grouped") + group("whole") + group("integer");
  std::string decimal = group("grouped_decimal") + group("decimal") + group("only_decimal");
  if (whole.empty() && decimal.empty()) {
    std::u32string expression(named(rule, match, text, "expr"));
    return {.value = parse_plain_expression(expression), .text = expression};
  }
  std::erase_if(whole, [](char c) { return c == ' ' || c == ','; });
  whole.erase(0, whole.find_first_not_of('0'));
  if (whole.empty()) whole = "0";
  std::ranges::replace(decimal, ',', '.');
  const auto number = parse_decimal(whole + decimal);
  MathPtr value = number ? make_number(*number, !decimal.empty()) : nullptr;
  if (value && !group("percent").empty()) value = make_math(Math::kPercent, {value});
  return {.value = value, .text = to_code_points(whole + decimal)};
}

// Digits of other scripts as ASCII's; another text where there are some.
std::u32string with_ascii_digits(std::u32string text) {
  for (char32_t& c : text)
    for (const char32_t zero : {U'\uFF10', U'\u0660', U'\u06F0', U'\u0966'})
      if (c >= zero && c <= zero + 9) c = c - zero + U'0';
  return text;
}

// A plain number in such digits: math_verify's patterns take it, and its parser then fails on the whole text.
bool has_foreign_number(const std::u32string& text, const std::vector<Rule>& rules, long& steps) {
  const std::u32string ascii = with_ascii_digits(text);
  if (ascii == text) return false;
  bool out = false;
  for (const Rule& rule : rules) {
    if (rule.latex) continue;
    rule.pattern.for_each_match(ascii, steps, [&](const Match& match) {
      const std::size_t size = match.end() - match.begin();
      out = out || ascii.compare(match.begin(), size, text, match.begin(), size) != 0;
    });
  }
  return out;
}

std::vector<MathCandidate> find_answers(const std::u32string& text, AnswerRules kind) {
  struct Found {
    std::size_t begin, end;
    const Rule* rule;
  };
  MathBudget budget;
  const auto& rules = rules_of(kind);
  const RuleTraits traits = traits_of(kind);
  std::u32string fallback;
  MathCandidate value;
  bool ended = false;
  for (std::size_t i = 0; i < rules.size() && !value.value && !ended;) {
    std::vector<Found> found;
    for (const int priority = rules[i].priority; i < rules.size() && rules[i].priority == priority; ++i)
      rules[i].pattern.for_each_match(text, budget.steps, [&](const Match& match) {
        found.push_back({match.begin(), match.end(), &rules[i]});
      });
    // The rightmost first; of those that end there, the longest.
    std::ranges::stable_sort(found, [](const Found& a, const Found& b) {
      return a.end != b.end ? a.end > b.end : a.begin < b.begin;
    });
    for (const Found& one : found) {
      const auto match = one.rule->pattern.match(text, one.begin, budget.steps);
      base::require(match.has_value(), "math_answers", "the same match again");
      MathCandidate read = one.rule->latex ? read_latex(*one.rule, *match, text, traits, budget)
                                           : read_plain(*one.rule, *match, text);
      if (fallback.empty()) fallback = read.text;
      ended = read.is_undecided;
      if (read.value) value = std::move(read);
      if (value.value || traits.first || ended) break;
    }
    if (traits.first && !found.empty()) break;
  }
  if (!value.value && !ended && traits.plain && has_foreign_number(text, rules, budget.steps)) return {};
  std::vector<MathCandidate> out;
  if (value.value) out.push_back(value);
  if (!fallback.empty()) out.push_back({.value = nullptr, .text = fallback});
  return out;
}

}  // namespace

std::vector<MathCandidate> math_answers(const std::u32string& text, AnswerRules rules) {
  try {
    return find_answers(text, rules);
  } catch (const base::PatternTooSlow&) {
    return {};
  } catch (const MathTimeOut&) {
    return {};
  } catch (const MathTooLarge&) {
    return {};
  }
}

bool same_answer(const MathCandidate& gold, const MathCandidate& answer) {
  if (gold.value && answer.value) try {
      return same_math(gold.value, answer.value);
    } catch (const MathTooLarge&) {
      return false;
    }
  if (gold.value || answer.value) return false;
  const auto text = base::stripped(gold.text);
  return !text.empty() && text == base::stripped(answer.text);
}

}  // namespace hone::rewards
