// LaTeX to a mathematical object, as latex2sympy2_extended 1.11 reads it (PS.g4 and latex2sympy2.py): the
// order of alternatives is the grammar's, and where it folds numbers (fractions of integers, mixed
// fractions), so does hone.
#include <algorithm>

#include "base/strings/pattern.h"
#include "rewards/math/answer.h"
#include "rewards/math/build.h"
#include "rewards/math/calculus.h"
#include "rewards/math/compare.h"
#include "rewards/math/lexer.h"
#include "rewards/math/matrix.h"

namespace hone::rewards {

namespace {

using base::to_code_points;
using base::to_utf8;
using View = std::u32string_view;

constexpr long kMaxWork = 100'000;  // of one expression: nested brackets are tried in several ways
constexpr int kMaxDepth = 300;      // of rules that call themselves

const MathPtr& one_half() {
  static const MathPtr value = make_number({1, 2});
  return value;
}

std::string lower(View text) {
  std::u32string out(text);
  for (char32_t& c : out)
    if (c >= U'A' && c <= U'Z') c += 32;
  return to_utf8(out);
}

MathPtr symbol(const std::string& name) {
  if (name == "pi") return make_math(Math::kPi);
  if (name == "gamma") return make_math(Math::kEulerGamma);
  return make_math(Math::kSymbol, {}, name);
}

struct GaveUp {};

class LatexParser {
 public:
  LatexParser(const std::vector<MathToken>& tokens, long work) : tokens_(tokens), work_left_(work) {}

  long work_left() const { return work_left_; }

  MathPtr parse() {
    if (MathPtr out = whole([this] { return assignment_of_list(); })) return out;
    if (MathPtr out = whole([this] { return list(); })) return out;
    return whole([this] { return set_relation(); });
  }

 private:
  // In every rule that can come back to itself.
  class Deeper {
   public:
    explicit Deeper(LatexParser& parser) : depth_(parser.depth_) {
      if (++depth_ > kMaxDepth) throw GaveUp();
    }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    ~Deeper() { --depth_; }

   private:
    int& depth_;
  };

  // ---- tokens
  const MathToken& token() const { return tokens_[at_]; }
  bool at_end() const { return token().type == MathToken::kEnd; }
  bool is_mark(View text) const { return token().type == MathToken::kMark && token().text == text; }
  bool take(View text) {
    if (!is_mark(text)) return false;
    ++at_;
    return true;
  }
  bool take_command(View text) {
    if (token().type != MathToken::kCommand || token().text != text) return false;
    ++at_;
    return true;
  }

  template <class F>
  MathPtr whole(const F& rule) {
    at_ = 0;
    MathPtr out = rule();
    return at_end() ? out : nullptr;
  }

  // Tries a rule; when it fails the place is as before.
  template <class F>
  MathPtr attempt(const F& rule) {
    if (--work_left_ < 0) throw GaveUp();
    const std::size_t start = at_;
    MathPtr out = rule();
    if (!out) at_ = start;
    return out;
  }

  // ---- lists and sets
  bool ends_element() const {
    static constexpr View kClosing[] = {U",",   U";",   U")",        U"]",        U"}",
                                        U"\\)", U"\\}", U"\\rbrace", U"\\rbrack", U"\\rgroup"};
    return at_end() || std::ranges::any_of(kClosing, [this](View one) { return is_mark(one); });
  }

  // One element, or the two of a \pm.
  std::optional<std::vector<MathPtr>> element(bool with_relations) {
    if (--work_left_ < 0) throw GaveUp();
    const std::size_t start = at_;
    if (auto both = plus_minus(); both && ends_element()) return both;
    at_ = start;
    if (MathPtr set = set_atom(); set && ends_element()) return std::vector{set};
    at_ = start;
    if (MathPtr one = with_relations ? relation() : expression(); one && ends_element())
      return std::vector{one};
    at_ = start;
    return std::nullopt;
  }

  std::optional<std::vector<MathPtr>> plus_minus() {
    if (take(U"±")) {
      const MathPtr one = expression();
      if (!one) return std::nullopt;
      return std::vector{negate(one), one};
    }
    const MathPtr left = expression();
    if (!left || !take(U"±")) return std::nullopt;
    const MathPtr right = expression();
    if (!right) return std::nullopt;
    return std::vector{make_math(Math::kAdd, {left, right}), make_math(Math::kAdd, {left, negate(right)})};
  }

  std::optional<std::vector<std::vector<MathPtr>>> rows(bool with_relations) {
    std::vector<std::vector<MathPtr>> out;
    do {
      auto& row = out.emplace_back();
      do {
        auto one = element(with_relations);
        if (!one) return std::nullopt;
        row.insert(row.end(), one->begin(), one->end());
      } while (take(U","));
    } while (take(U";"));
    return out;
  }

  MathPtr list() {
    const auto all = rows(true);
    return all ? list_value(*all) : nullptr;
  }

  // x = 1, 2   x \in (0, 1)   (x, y) = (1, 2)
  MathPtr assignment_of_list() {
    const MathPtr left = names();
    if (!left || !(take(U"=") || take(U"\\in"))) return nullptr;
    const auto all = rows(false);
    return all ? make_math(Math::kRelation, {left, list_value(*all)}, "=") : nullptr;
  }

  MathPtr names() {
    if (!take(U"(")) return name_with_scripts();
    std::vector<MathPtr> all;
    do {
      all.push_back(name_with_scripts());
      if (!all.back()) return nullptr;
    } while (take(U","));
    if (!take(U")")) return nullptr;
    return all.size() == 1 ? all[0] : make_math(Math::kTuple, std::move(all));
  }

  MathPtr set_relation() {
    const Deeper deeper(*this);
    const std::size_t start = at_;
    if (const MathPtr left = names(); left && (take(U"=") || take(U"\\in")))
      if (const MathPtr right = set_relation()) return make_math(Math::kRelation, {left, right}, "=");
    at_ = start;
    return set_minus();
  }

  MathPtr set_chain(View mark, Math::Kind kind, MathPtr (LatexParser::*inner)()) {
    MathPtr left = (this->*inner)();
    while (left && take(mark)) {
      const MathPtr right = (this->*inner)();
      if (!right) return nullptr;
      const auto as_set = [](const MathPtr& one) {
        return one->kind == Math::kTuple ? set_of(one->args) : one;
      };
      left = make_math(kind, {as_set(left), as_set(right)});
    }
    return left;
  }
  MathPtr set_minus() { return set_chain(U"\\setminus", Math::kComplement, &LatexParser::set_union); }
  MathPtr set_union() { return set_chain(U"\\cup", Math::kUnion, &LatexParser::set_intersection); }
  MathPtr set_intersection() { return set_chain(U"\\cap", Math::kIntersection, &LatexParser::set_group); }
  MathPtr set_group() {
    const Deeper deeper(*this);
    const MathPtr grouped = attempt([this]() -> MathPtr {
      if (!take(U"(")) return nullptr;
      const MathPtr inner = set_minus();
      return inner && take(U")") ? inner : nullptr;
    });
    return grouped ? grouped : set_atom();
  }

  MathPtr set_atom() {
    const Deeper deeper(*this);
    MathPtr out = attempt([this] { return interval(); });
    if (!out) out = attempt([this] { return literal_set(); });
    if (!out) out = attempt([this] { return ordered_tuple(); });
    if (!out) out = attempt([this] { return finite_set(); });
    return out;
  }

  MathPtr interval() {
    const bool left_open = is_mark(U"(") || is_mark(U"\\(") || is_mark(U"\\lgroup");
    if (!left_open && !is_mark(U"[") && !is_mark(U"\\lbrack")) return nullptr;
    ++at_;
    const MathPtr left = expression();
    if (!left || !take(U",")) return nullptr;
    const MathPtr right = expression();
    const bool right_open = is_mark(U")") || is_mark(U"\\)") || is_mark(U"\\rgroup");
    if (!right || (!right_open && !is_mark(U"]") && !is_mark(U"\\rbrack"))) return nullptr;
    ++at_;
    return make_interval(left, right, left_open, right_open);
  }

  MathPtr literal_set() {
    if (token().type == MathToken::kEmptySet) return ++at_, make_math(Math::kEmptySet);
    if (token().type == MathToken::kReals) return ++at_, make_math(Math::kReals);
    return take(U"{") && take(U"}") ? make_math(Math::kEmptySet) : nullptr;
  }

  MathPtr ordered_tuple() {
    const View close = is_mark(U"(") ? U")" : is_mark(U"\\(") ? U"\\)" : is_mark(U"[") ? U"]" : U"";
    if (close.empty()) return nullptr;
    ++at_;
    const auto all = rows(true);
    if (!all || !take(close)) return nullptr;
    if (all->size() == 1 && all->front().size() == 1) return all->front()[0];
    return make_math(Math::kTuple, flatten(*all));
  }

  MathPtr finite_set() {
    const bool boxed = take_command(U"boxed");
    const bool visual = !boxed && is_mark(U"\\{");
    if (!take(visual ? U"\\{" : U"{")) return nullptr;
    const auto all = rows(true);
    if (!all || !take(visual ? U"\\}" : U"}")) return nullptr;
    return boxed ? list_value(*all) : set_of(flatten(*all));
  }

  // ---- relations
  std::string relation_mark() const {
    if (token().type != MathToken::kMark) return {};
    for (const View one : {U"=", U"==", U"<", U"<=", U">", U">=", U"!=", U"≈", U"\\in"})
      if (token().text == one) return one == U"==" ? "=" : to_utf8(one);
    return {};
  }

  MathPtr relation() {
    MathPtr left = expression();
    std::vector<MathPtr> chain;  // of relations; `left` stands until there is one
    for (std::string mark = relation_mark(); left && !mark.empty(); mark = relation_mark()) {
      ++at_;
      const MathPtr right = expression();
      if (!right || mark == "\\in") return nullptr;
      if (mark == "≈") {  // a name takes the value, a value stays
        if (chain.empty() ? only_symbols(left) : std::ranges::all_of(chain, only_symbols)) {
          left = right;
          chain.clear();
        }
        continue;
      }
      chain.push_back(
          make_math(Math::kRelation, {chain.empty() ? left : chain.back()->args[1], right}, mark));
    }
    if (!left || chain.empty()) return left;
    return chain.size() == 1 ? chain[0] : make_math(Math::kChain, std::move(chain));
  }

  // ---- expressions
  MathPtr expression() {
    const Deeper deeper(*this);
    const MathPtr first = product(true);
    if (!first) return nullptr;
    Flat sum(Math::kAdd, first);
    while (is_mark(U"+") || is_mark(U"-")) {
      const bool minus = is_mark(U"-");
      ++at_;
      MathPtr right = product(true);
      if (!right) return nullptr;
      if (minus)
        right = right->kind == Math::kNumber ? negate(right) : flat(Math::kMultiply, minus_one(), right);
      sum.add(right);
    }
    return sum.value();
  }

  // `functions`: false inside the argument of a function without parentheses.
  MathPtr product(bool functions) {
    const MathPtr first = signed_factors(functions);
    if (!first) return nullptr;
    Flat out(Math::kMultiply, first);
    while (is_mark(U"*") || is_mark(U"/")) {
      const bool over = is_mark(U"/");
      ++at_;
      const MathPtr right = signed_factors(functions);
      if (!right) return nullptr;
      if (over) {
        out = Flat(Math::kMultiply, quotient(out.value(), right));
      } else {
        out.add(right);
      }
    }
    return out.value();
  }

  MathPtr signed_factors(bool functions) {
    int minus = 0;
    for (int signs = 0; is_mark(U"+") || is_mark(U"-"); ++signs, ++at_) {
      if (depth_ + signs > kMaxDepth) throw GaveUp();
      if (is_mark(U"-")) ++minus;
    }
    MathPtr out = factors(functions);
    for (; out && minus > 0; --minus)
      out = out->kind == Math::kNumber ? negate(out) : flat(Math::kMultiply, minus_one(), out);
    return out;
  }

  MathPtr factors(bool functions) {
    std::vector<MathPtr> all;
    while (MathPtr one = attempt([&] { return power_and_marks(functions || all.empty()); }))
      all.push_back(one);
    return all.empty() ? nullptr : beside(all);
  }

  MathPtr power_and_marks(bool functions) {
    MathPtr out = power(functions);
    while (out) {
      if (take(U"!")) {
        out = make_math(Math::kFunction, {out}, "factorial");
      } else if (take(U"transpose")) {
        if (out->kind == Math::kMatrix) out = transposed(out);
      } else if (!take(U"degree")) {
        break;
      }
    }
    return out;
  }

  MathPtr power(bool functions) {
    MathPtr base = component(functions);
    while (base && is_mark(U"^")) {
      const MathPtr exponent = superscript();
      if (!exponent) return nullptr;
      base = make_math(Math::kPower, {base, exponent});
    }
    return base;
  }

  MathPtr superscript() {  // ^ and an atom or {expression}
    const Deeper deeper(*this);
    if (!take(U"^")) return nullptr;
    if (!take(U"{")) return atom();
    const MathPtr out = expression();
    return out && take(U"}") ? out : nullptr;
  }

  // _ and an atom, {expression} or {a, b}: the text, without spaces.
  std::optional<std::string> subscript() {
    const Deeper deeper(*this);
    if (!take(U"_")) return std::nullopt;
    const bool braces = take(U"{");
    const std::size_t start = at_;
    if (!braces) {
      if (!atom()) return std::nullopt;
    } else {
      do
        if (!expression()) return std::nullopt;
      while (take(U","));
    }
    std::string out;
    for (std::size_t i = start; i < at_; ++i) out += spelled(tokens_[i]);
    if (braces && !take(U"}")) return std::nullopt;
    return out;
  }

  static std::string spelled(const MathToken& one) { return to_utf8(one.text); }

  MathPtr group(View open, View close) {
    return attempt([&]() -> MathPtr {
      if (!take(open)) return nullptr;
      const MathPtr out = expression();
      return out && take(close) ? out : nullptr;
    });
  }

  MathPtr component(bool functions) {
    static constexpr std::pair<View, View> kGroups[] = {{U"(", U")"},
                                                        {U"\\lgroup", U"\\rgroup"},
                                                        {U"{", U"}"},
                                                        {U"[", U"]"},
                                                        {U"\\{", U"\\}"},
                                                        {U"\\lbrace", U"\\rbrace"},
                                                        {U"\\lbrack", U"\\rbrack"}};
    for (const auto& [open, close] : kGroups)
      if (MathPtr out = group(open, close)) return out;
    if (take_command(U"boxed") || take_command(U"phantom")) return group(U"{", U"}");
    if (MathPtr out = absolute()) return out;
    if (MathPtr out = group(U"\\lfloor", U"\\rfloor")) return make_math(Math::kFunction, {out}, "floor");
    if (MathPtr out = group(U"\\lceil", U"\\rceil")) return make_math(Math::kFunction, {out}, "ceil");
    if (functions)
      if (MathPtr out = attempt([this] { return function(); })) return out;
    if (MathPtr out = attempt([this] { return matrix(); })) return out;
    if (MathPtr out = attempt([this] { return atom(); })) return out;
    if (MathPtr out = attempt([this] { return two_arguments(U"frac"); })) return out;
    if (MathPtr out = attempt([this] { return two_arguments(U"binom"); })) return out;
    return attempt([this] { return choose(); });
  }

  MathPtr absolute() {
    MathPtr out = group(U"\\lvert", U"\\rvert");
    if (!out && bars_ == 0) {
      ++bars_;  // the next | closes
      out = group(U"|", U"|");
      if (!out) out = group(U"\\vert", U"\\vert");
      --bars_;
    }
    return out ? make_math(Math::kFunction, {out}, "abs") : nullptr;
  }

  MathPtr braced() { return group(U"{", U"}"); }

  MathPtr two_arguments(View command) {
    if (!take_command(command)) return nullptr;
    const MathPtr above = braced();
    const MathPtr below = above ? braced() : nullptr;
    if (!below) return nullptr;
    return command == U"frac" ? quotient(above, below)
                              : make_math(Math::kFunction, {above, below}, "binomial");
  }

  MathPtr choose() {  // {n \choose k}
    if (!take(U"{")) return nullptr;
    const MathPtr above = expression();
    if (!above || !take_command(U"choose")) return nullptr;
    const MathPtr below = expression();
    return below && take(U"}") ? make_math(Math::kFunction, {above, below}, "binomial") : nullptr;
  }

  MathPtr function() {
    if (token().type == MathToken::kFunction) return known_function();
    if (token().type == MathToken::kExponential) {
      ++at_;
      MathPtr e = make_math(Math::kE);
      if (!is_mark(U"^")) return e;
      const MathPtr exponent = superscript();
      return exponent ? make_math(Math::kPower, {e, exponent}) : nullptr;
    }
    if (take_command(U"sqrt")) return root();
    for (const View name : {U"gcd", U"lcm", U"max", U"min"})
      if (take_command(name)) return of_several(to_utf8(name));
    for (const View name : {U"sum", U"prod"})
      if (take_command(name)) return range(name == U"sum" ? Math::kAdd : Math::kMultiply);
    if (take_command(U"int")) return integral();
    return unknown_function();
  }

  // \gcd(4, 6), \max(1, 2) of numbers.
  MathPtr of_several(const std::string& name) {
    std::vector<MathPtr> args;
    if (!take(U"(")) return nullptr;
    do {
      args.push_back(expression());
      if (!args.back()) return nullptr;
    } while (take(U","));
    return take(U")") ? one_of_several(name, args) : nullptr;
  }

  MathPtr limit() { return is_mark(U"{") ? braced() : atom(); }

  // \sum_{i=1}^{3} and a product, with whole numbers as limits: the terms.
  MathPtr range(Math::Kind kind) {
    const Deeper deeper(*this);
    MathPtr name, first, last;
    for (int i = 0; i < 2; ++i) {
      if (!last && is_mark(U"^")) {
        last = superscript();
        if (!last) return nullptr;
      } else if (!name && take(U"_") && take(U"{")) {
        name = name_with_subscript();
        if (!name || name->kind != Math::kSymbol || !take(U"=")) return nullptr;
        first = expression();
        if (!first || !take(U"}")) return nullptr;
      }
    }
    const MathPtr body = name && last ? product(true) : nullptr;
    return body ? terms_of(kind, body, name->name, first, last, work_left_) : nullptr;
  }

  // \int_0^1 x dx and \int_0^1 \frac{dx}{x}, between numbers.
  MathPtr integral() {
    const Deeper deeper(*this);
    MathPtr low, high;
    for (int i = 0; i < 2; ++i) {
      if (!high && is_mark(U"^")) {
        high = superscript();
      } else if (!low && take(U"_")) {
        low = limit();
      }
    }
    if (!low || !high) return nullptr;
    const std::size_t start = at_;
    integrals_ += 1;  // a differential ends the integrand
    MathPtr body = expression();
    integrals_ -= 1;
    if (!body) {
      at_ = start;
      body = make_number({1, 1});
    }
    if (token().type == MathToken::kDifferential) {
      View name = tokens_[at_++].text;
      if (name.starts_with(U'\\')) name.remove_prefix(1);
      return definite_integral(body, lower(name), low, high, work_left_);
    }
    at_ = start;
    const MathPtr quotient = two_arguments(U"frac");  // the differential is above
    return quotient ? definite_integral_of_quotient(quotient, low, high, work_left_) : nullptr;
  }

  // \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
  MathPtr matrix() {
    const Deeper deeper(*this);
    const bool det = take_command(U"det");
    const bool bars = take_command(U"begin vmatrix");
    if (!bars && take_command(U"begin array")) {
      if (!take(U"{")) return nullptr;
      while (!at_end() && !is_mark(U"}")) ++at_;
      if (!take(U"}")) return nullptr;
    } else if (!bars && !take_command(U"begin matrix")) {
      return nullptr;
    }
    std::vector<std::vector<MathPtr>> all;
    do {
      auto& row = all.emplace_back();
      do {
        row.push_back(expression());
        if (!row.back()) return nullptr;
      } while (take(U"&"));
    } while (take(U"\\\\"));
    if (!take_command(U"end matrix")) return nullptr;
    const MathPtr out = make_matrix(all);
    return out && (det || bars) ? determinant(out) : out;
  }

  MathPtr root() {
    MathPtr exponent = one_half();
    if (take(U"[")) {
      const MathPtr degree = expression();
      if (!degree || !take(U"]")) return nullptr;
      exponent = quotient(make_number({1, 1}), degree);
    }
    const MathPtr base = braced();
    return base ? make_math(Math::kPower, {base, exponent}) : nullptr;
  }

  MathPtr known_function() {
    const Deeper deeper(*this);
    std::string name = to_utf8(token().text);
    ++at_;
    MathPtr base;
    MathPtr exponent;
    for (int i = 0; i < 2; ++i) {
      if (is_mark(U"_") && !base) {
        ++at_;
        base = is_mark(U"{") ? braced() : atom();
        if (!base) return nullptr;
      } else if (is_mark(U"^") && !exponent) {
        exponent = superscript();
        if (!exponent) return nullptr;
      }
    }
    MathPtr argument = group(U"(", U")");
    if (!argument) argument = product(false);
    if (!argument) return nullptr;
    if (exponent && exponent->is_integer() && exponent->number == Rational{-1, 1} &&
        (name == "sin" || name == "cos" || name == "tan" || name == "csc" || name == "sec" ||
         name == "cot")) {
      name = "a" + name;
      exponent = nullptr;
    }
    MathPtr out;
    if (name == "log" || name == "ln") {
      if (!base) base = name == "log" ? make_number({10, 1}) : make_math(Math::kE);
      out = make_math(Math::kFunction, {argument, base}, "log");
    } else {
      out = make_math(Math::kFunction, {argument}, name);
    }
    return exponent ? make_math(Math::kPower, {out, exponent}) : out;
  }

  // f(x), f(1, 2): a name and an atom, or several expressions, in parentheses.
  MathPtr unknown_function() {
    const std::size_t start = at_;
    if (!name_with_subscript()) return nullptr;
    std::string name;
    for (std::size_t i = start; i < at_; ++i) name += spelled(tokens_[i]);
    MathPtr exponent;
    if (is_mark(U"^")) {
      exponent = superscript();
      if (!exponent) return nullptr;
    }
    const View close = is_mark(U"(") ? U")" : is_mark(U"[") ? U"]" : U"";
    if (close.empty()) return nullptr;
    ++at_;
    std::vector<MathPtr> args;
    const MathPtr single = attempt([&]() -> MathPtr {
      MathPtr out = atom();
      return out && is_mark(close) ? out : nullptr;
    });
    if (single) {
      args.push_back(single);
    } else {
      do {
        const MathPtr one = expression();
        if (!one) return nullptr;
        args.push_back(one);
      } while (take(U",") && !is_mark(close));
      if (args.size() < 2) return nullptr;
    }
    if (!take(close)) return nullptr;
    const MathPtr out = make_math(Math::kFunction, std::move(args), "of " + name);
    return exponent ? make_math(Math::kPower, {out, exponent}) : out;
  }

  // ---- atoms
  bool is_name() const {
    return token().type == MathToken::kLetter || token().type == MathToken::kGreek ||
           token().type == MathToken::kText;
  }

  MathPtr name_with_subscript() {
    if (!is_name()) return nullptr;
    const View text = tokens_[at_++].text;
    if (text == U"I") return make_math(Math::kImaginary);
    std::string name(lower(text));
    if (is_mark(U"_")) {
      const auto below = subscript();
      if (!below) return nullptr;
      const std::string inner = lower(to_code_points(*below));
      name += inner.size() > 1 ? "_{" + inner + "}" : "_" + inner;
    }
    return symbol(name);
  }

  MathPtr name_with_scripts() {
    if (!is_name()) return nullptr;
    const std::size_t start = at_;
    if (tokens_[at_ + 1].type == MathToken::kMark && tokens_[at_ + 1].text == U"^") {  // x^2_1
      const MathPtr bare = symbol(lower(tokens_[at_++].text));
      const MathPtr exponent = superscript();
      if (exponent && !is_mark(U"_"))
        return make_math(Math::kPower,
                         {tokens_[start].text == U"I" ? make_math(Math::kImaginary) : bare, exponent});
      at_ = start;
      return nullptr;
    }
    MathPtr out = name_with_subscript();
    if (out && is_mark(U"^")) {
      const std::size_t here = at_;
      if (const MathPtr exponent = superscript()) return make_math(Math::kPower, {out, exponent});
      at_ = here;
    }
    return out;
  }

  MathPtr atom() {
    const MathToken& one = token();
    switch (one.type) {
      case MathToken::kLetter:
      case MathToken::kGreek:
      case MathToken::kText:
        return name_with_scripts();
      case MathToken::kInfinity:
        return ++at_, make_math(Math::kInfinity);
      case MathToken::kDifferential:
        if (integrals_ > 0) return nullptr;
        return ++at_, make_math(Math::kSymbol, {}, "d" + to_utf8(one.text));
      case MathToken::kNumber: {
        ++at_;
        if (is_mark(U"_") && !subscript()) return nullptr;  // the base of 101_2 is not looked at
        return number(one.text);
      }
      case MathToken::kPercent: {
        ++at_;
        const MathPtr value = number(one.text);
        return value ? make_math(Math::kPercent, {value}) : nullptr;
      }
      case MathToken::kScientific:
        return ++at_, scientific(one.text);
      default:
        return nullptr;
    }
  }

  static MathPtr number(View text) {
    const auto value = parse_decimal(to_utf8(text));
    return value ? make_number(*value, text.find(U'.') != View::npos) : nullptr;
  }

  static MathPtr scientific(View text) {
    const std::size_t split = text.find(U'E');
    const auto value = parse_decimal(to_utf8(text.substr(0, split)));
    std::string exponent = to_utf8(text.substr(split + 1));
    if (exponent.starts_with('+')) exponent.erase(0, 1);
    const auto shift = parse_decimal(exponent);
    if (!value || !shift) return nullptr;
    const auto scale = rewards::power(Rational{10, 1}, shift->p);
    const auto out = scale ? multiply(*value, *scale) : std::nullopt;
    return out ? make_number(*out, true) : nullptr;
  }

  const std::vector<MathToken>& tokens_;
  std::size_t at_ = 0;
  long work_left_;
  int depth_ = 0;
  int bars_ = 0;
  int integrals_ = 0;  // whose integrand is read
};

// 1,234 and 12,345.5 alone are numbers; 0,5 does not come here, 0,500 is a half.
MathPtr grouped_number(const std::u32string& text) {
  static const base::Pattern grouped(R"(\s*(-?\d{1,3}(?:,\d{3})+(?:\.\d+)?)\s*\Z)");
  const auto found = grouped.match(text);
  if (!found) return nullptr;
  std::string number = to_utf8(found->text(text, 1));
  const bool fraction = number.starts_with('0');
  if (fraction) std::ranges::replace(number, ',', '.');
  std::erase(number, ',');
  const auto value = parse_decimal(number);
  return value ? make_number(*value, number.find('.') != std::string::npos) : nullptr;
}

}  // namespace

bool is_undecided_latex(const std::u32string& text) {
  return has_undecided_latex(tokenize_latex(text), text);
}

MathPtr parse_latex(const std::u32string& text, MathBudget& budget) {
  budget.steps -= 10 * static_cast<long>(text.size());
  if (budget.steps < 0 || budget.attempts < 0) throw MathTimeOut();
  const auto tokens = tokenize_latex(text);
  if (tokens.size() < 2) return nullptr;
  const long work = std::min(kMaxWork, budget.attempts);
  LatexParser parser(tokens, work);
  MathPtr out;
  try {
    out = parser.parse();
  } catch (const GaveUp&) {
    out = nullptr;
  } catch (const MathTooLarge&) {
    out = nullptr;
  }
  budget.attempts -= work - parser.work_left();
  if (!out) return nullptr;
  if (MathPtr number = grouped_number(text)) return number;
  return out;
}

}  // namespace hone::rewards
