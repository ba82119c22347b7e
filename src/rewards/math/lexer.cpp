#include "rewards/math/lexer.h"

#include "base/strings/code_points.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace hone::rewards {

namespace {

using View = std::u32string_view;

struct Literal {
  View spelling;
  MathToken::Type type;
  View text;  // empty and kEnd: skipped
};

constexpr auto kSkip = MathToken::kEnd;

// clang-format off
constexpr Literal kLiterals[] = {
    // spaces
    Literal{U"\\,", kSkip, {}}, Literal{U"\\thinspace", kSkip, {}}, Literal{U"\\:", kSkip, {}},
    Literal{U"\\medspace", kSkip, {}}, Literal{U"\\;", kSkip, {}}, Literal{U"\\thickspace", kSkip, {}},
    Literal{U"\\quad", kSkip, {}}, Literal{U"\\qquad", kSkip, {}}, Literal{U"\\!", kSkip, {}},
    Literal{U"\\negthinspace", kSkip, {}}, Literal{U"\\negmedspace", kSkip, {}},
    Literal{U"\\negthickspace", kSkip, {}}, Literal{U"\\$", kSkip, {}},
    // operators
    Literal{U"+", MathToken::kMark, U"+"}, Literal{U"-", MathToken::kMark, U"-"}, Literal{U"−", MathToken::kMark, U"-"},
    Literal{U"*", MathToken::kMark, U"*"}, Literal{U"×", MathToken::kMark, U"*"}, Literal{U"⋅", MathToken::kMark, U"*"},
    Literal{U"∗", MathToken::kMark, U"*"}, Literal{U"∙", MathToken::kMark, U"*"}, Literal{U"∘", MathToken::kMark, U"*"},
    Literal{U"\\times", MathToken::kMark, U"*"}, Literal{U"\\cdot", MathToken::kMark, U"*"},
    Literal{U"/", MathToken::kMark, U"/"}, Literal{U"÷", MathToken::kMark, U"/"}, Literal{U"∕", MathToken::kMark, U"/"},
    Literal{U"\\over", MathToken::kMark, U"/"}, Literal{U"\\div", MathToken::kMark, U"/"},
    Literal{U":", MathToken::kMark, U"/"}, Literal{U"\\mod", MathToken::kUnknown, {}},
    Literal{U"!", MathToken::kMark, U"!"}, Literal{U"^", MathToken::kMark, U"^"}, Literal{U"_", MathToken::kMark, U"_"},
    Literal{U",", MathToken::kMark, U","}, Literal{U";", MathToken::kMark, U";"},
    Literal{U"^T", MathToken::kMark, U"transpose"}, Literal{U"^{T}", MathToken::kMark, U"transpose"},
    Literal{U"^\\circ", MathToken::kMark, U"degree"}, Literal{U"^{\\circ}", MathToken::kMark, U"degree"},
    Literal{U"^\\degree", MathToken::kMark, U"degree"}, Literal{U"^{\\degree}", MathToken::kMark, U"degree"},
    Literal{U"^\\circle", MathToken::kMark, U"degree"}, Literal{U"^{\\circle}", MathToken::kMark, U"degree"},
    Literal{U"^°", MathToken::kMark, U"degree"}, Literal{U"^{°}", MathToken::kMark, U"degree"},
    Literal{U"\\pm", MathToken::kMark, U"±"}, Literal{U"±", MathToken::kMark, U"±"},
    Literal{U"\\mp", MathToken::kMark, U"±"}, Literal{U"∓", MathToken::kMark, U"±"},
    // brackets
    Literal{U"(", MathToken::kMark, U"("}, Literal{U")", MathToken::kMark, U")"},
    Literal{U"\\(", MathToken::kMark, U"\\("}, Literal{U"\\)", MathToken::kMark, U"\\)"},
    Literal{U"{", MathToken::kMark, U"{"}, Literal{U"}", MathToken::kMark, U"}"},
    Literal{U"\\{", MathToken::kMark, U"\\{"}, Literal{U"\\}", MathToken::kMark, U"\\}"},
    Literal{U"\\lbrace", MathToken::kMark, U"\\lbrace"}, Literal{U"\\rbrace", MathToken::kMark, U"\\rbrace"},
    Literal{U"[", MathToken::kMark, U"["}, Literal{U"]", MathToken::kMark, U"]"},
    Literal{U"\\lbrack", MathToken::kMark, U"\\lbrack"}, Literal{U"\\rbrack", MathToken::kMark, U"\\rbrack"},
    Literal{U"\\lgroup", MathToken::kMark, U"\\lgroup"}, Literal{U"\\rgroup", MathToken::kMark, U"\\rgroup"},
    Literal{U"|", MathToken::kMark, U"|"}, Literal{U"\\vert", MathToken::kMark, U"\\vert"},
    Literal{U"\\lvert", MathToken::kMark, U"\\lvert"}, Literal{U"\\rvert", MathToken::kMark, U"\\rvert"},
    Literal{U"\\lfloor", MathToken::kMark, U"\\lfloor"}, Literal{U"\\rfloor", MathToken::kMark, U"\\rfloor"},
    Literal{U"\\lceil", MathToken::kMark, U"\\lceil"}, Literal{U"\\rceil", MathToken::kMark, U"\\rceil"},
    // relations
    Literal{U"=", MathToken::kMark, U"="}, Literal{U"==", MathToken::kMark, U"=="},
    Literal{U"\\equiv", MathToken::kMark, U"=="}, Literal{U"≡", MathToken::kMark, U"="},
    Literal{U"\\in", MathToken::kMark, U"\\in"}, Literal{U"\\notin", MathToken::kUnknown, {}},
    Literal{U"\\approx", MathToken::kMark, U"≈"}, Literal{U"≈", MathToken::kMark, U"≈"},
    Literal{U"<", MathToken::kMark, U"<"}, Literal{U"\\lt", MathToken::kMark, U"<"},
    Literal{U"<=", MathToken::kMark, U"<="}, Literal{U"≤", MathToken::kMark, U"<="},
    Literal{U"\\le", MathToken::kMark, U"<="}, Literal{U"\\leq", MathToken::kMark, U"<="},
    Literal{U"\\leqslant", MathToken::kMark, U"<="},
    Literal{U">", MathToken::kMark, U">"}, Literal{U"\\gt", MathToken::kMark, U">"},
    Literal{U">=", MathToken::kMark, U">="}, Literal{U"≥", MathToken::kMark, U">="},
    Literal{U"\\ge", MathToken::kMark, U">="}, Literal{U"\\geq", MathToken::kMark, U">="},
    Literal{U"\\geqslant", MathToken::kMark, U">="},
    Literal{U"!=", MathToken::kMark, U"!="}, Literal{U"\\ne", MathToken::kMark, U"!="},
    Literal{U"\\neq", MathToken::kMark, U"!="}, Literal{U"≠", MathToken::kMark, U"!="},
    // sets
    Literal{U"\\cup", MathToken::kMark, U"\\cup"}, Literal{U"∪", MathToken::kMark, U"\\cup"},
    Literal{U"\\cap", MathToken::kMark, U"\\cap"}, Literal{U"∩", MathToken::kMark, U"\\cap"},
    Literal{U"\\setminus", MathToken::kMark, U"\\setminus"}, Literal{U"∖", MathToken::kMark, U"\\setminus"},
    Literal{U"\\emptyset", MathToken::kEmptySet, {}}, Literal{U"∅", MathToken::kEmptySet, {}},
    Literal{U"\\{\\}", MathToken::kEmptySet, {}}, Literal{U"\\lbrace\\rbrace", MathToken::kEmptySet, {}},
    Literal{U"\\mathbb{R}", MathToken::kReals, {}}, Literal{U"ℝ", MathToken::kReals, {}},
    Literal{U"\\mathbb{N}", MathToken::kUnknown, {}}, Literal{U"\\mathbb{Z}", MathToken::kUnknown, {}},
    Literal{U"\\mathbb{Q}", MathToken::kUnknown, {}}, Literal{U"\\mathbb{C}", MathToken::kUnknown, {}},
    Literal{U"\\mathbb{P}", MathToken::kUnknown, {}}, Literal{U"\\subseteq", MathToken::kUnknown, {}},
    Literal{U"\\infty", MathToken::kInfinity, {}}, Literal{U"\\$\\infty", MathToken::kInfinity, {}},
    Literal{U"\\infty%", MathToken::kInfinity, {}}, Literal{U"\\infty\\%", MathToken::kInfinity, {}},
    Literal{U"\\partial", MathToken::kUnknown, {}},
    // commands
    Literal{U"\\frac", MathToken::kCommand, U"frac"}, Literal{U"\\dfrac", MathToken::kCommand, U"frac"},
    Literal{U"\\tfrac", MathToken::kCommand, U"frac"}, Literal{U"\\cfrac", MathToken::kCommand, U"frac"},
    Literal{U"\\sqrt", MathToken::kCommand, U"sqrt"}, Literal{U"\\boxed", MathToken::kCommand, U"boxed"},
    Literal{U"\\phantom", MathToken::kCommand, U"phantom"}, Literal{U"\\choose", MathToken::kCommand, U"choose"},
    Literal{U"\\binom", MathToken::kCommand, U"binom"}, Literal{U"\\dbinom", MathToken::kCommand, U"binom"},
    Literal{U"\\tbinom", MathToken::kCommand, U"binom"},
    Literal{U"\\operatorname", MathToken::kUnknown, {}}, Literal{U"\\begin", MathToken::kUnknown, {}},
    Literal{U"\\end", MathToken::kUnknown, {}}, Literal{U"\\\\", MathToken::kMark, U"\\\\"},
    Literal{U"&", MathToken::kMark, U"&"}, Literal{U"\\|", MathToken::kUnknown, {}},
    Literal{U"\\begin{matrix}", MathToken::kCommand, U"begin matrix"},
    Literal{U"\\begin{pmatrix}", MathToken::kCommand, U"begin matrix"},
    Literal{U"\\begin{bmatrix}", MathToken::kCommand, U"begin matrix"},
    Literal{U"\\begin{vmatrix}", MathToken::kCommand, U"begin vmatrix"},
    Literal{U"\\begin{array}", MathToken::kCommand, U"begin array"},
    Literal{U"\\end{matrix}", MathToken::kCommand, U"end matrix"},
    Literal{U"\\end{pmatrix}", MathToken::kCommand, U"end matrix"},
    Literal{U"\\end{bmatrix}", MathToken::kCommand, U"end matrix"},
    Literal{U"\\end{vmatrix}", MathToken::kCommand, U"end matrix"},
    Literal{U"\\end{array}", MathToken::kCommand, U"end matrix"},
    Literal{U"\\operatorname{gcd}", MathToken::kCommand, U"gcd"},
    Literal{U"\\operatorname{lcm}", MathToken::kCommand, U"lcm"},
    Literal{U"\\int", MathToken::kCommand, U"int"}, Literal{U"\\sum", MathToken::kCommand, U"sum"},
    Literal{U"\\prod", MathToken::kCommand, U"prod"}, Literal{U"\\lim", MathToken::kUnknown, {}},
    Literal{U"\\to", MathToken::kUnknown, {}}, Literal{U"\\rightarrow", MathToken::kUnknown, {}},
    Literal{U"\\det", MathToken::kCommand, U"det"}, Literal{U"\\gcd", MathToken::kCommand, U"gcd"},
    Literal{U"\\lcm", MathToken::kCommand, U"lcm"}, Literal{U"\\max", MathToken::kCommand, U"max"},
    Literal{U"\\min", MathToken::kCommand, U"min"}, Literal{U"\\langle", MathToken::kUnknown, {}},
    Literal{U"\\rangle", MathToken::kUnknown, {}}, Literal{U"'", MathToken::kMark, U"transpose"},
    Literal{U".", MathToken::kUnknown, {}},
    // functions
    Literal{U"\\log", MathToken::kFunction, U"log"}, Literal{U"\\ln", MathToken::kFunction, U"ln"},
    Literal{U"\\exp", MathToken::kFunction, U"exp"}, Literal{U"\\sin", MathToken::kFunction, U"sin"},
    Literal{U"\\cos", MathToken::kFunction, U"cos"}, Literal{U"\\tan", MathToken::kFunction, U"tan"},
    Literal{U"\\csc", MathToken::kFunction, U"csc"}, Literal{U"\\sec", MathToken::kFunction, U"sec"},
    Literal{U"\\cot", MathToken::kFunction, U"cot"}, Literal{U"\\arcsin", MathToken::kFunction, U"asin"},
    Literal{U"\\arccos", MathToken::kFunction, U"acos"}, Literal{U"\\arctan", MathToken::kFunction, U"atan"},
    Literal{U"\\sinh", MathToken::kFunction, U"sinh"}, Literal{U"\\cosh", MathToken::kFunction, U"cosh"},
    Literal{U"\\tanh", MathToken::kFunction, U"tanh"}, Literal{U"\\exponentialE", MathToken::kExponential, {}},
    Literal{U"\\floor", MathToken::kFunction, U"floor"}, Literal{U"\\ceil", MathToken::kFunction, U"ceil"},
    // Greek letters (with one space after them)
    Literal{U"\\alpha", MathToken::kGreek, U"alpha"}, Literal{U"\\beta", MathToken::kGreek, U"beta"},
    Literal{U"\\gamma", MathToken::kGreek, U"gamma"}, Literal{U"\\Gamma", MathToken::kGreek, U"gamma"},
    Literal{U"\\delta", MathToken::kGreek, U"delta"}, Literal{U"\\Delta", MathToken::kGreek, U"delta"},
    Literal{U"\\epsilon", MathToken::kGreek, U"epsilon"}, Literal{U"\\varepsilon", MathToken::kGreek, U"varepsilon"},
    Literal{U"\\zeta", MathToken::kGreek, U"zeta"}, Literal{U"\\eta", MathToken::kGreek, U"eta"},
    Literal{U"\\theta", MathToken::kGreek, U"theta"}, Literal{U"\\Theta", MathToken::kGreek, U"theta"},
    Literal{U"\\vartheta", MathToken::kGreek, U"vartheta"}, Literal{U"\\iota", MathToken::kGreek, U"iota"},
    Literal{U"\\kappa", MathToken::kGreek, U"kappa"}, Literal{U"\\lambda", MathToken::kGreek, U"lambda"},
    Literal{U"\\Lambda", MathToken::kGreek, U"lambda"}, Literal{U"\\mu", MathToken::kGreek, U"mu"},
    Literal{U"\\nu", MathToken::kGreek, U"nu"}, Literal{U"\\xi", MathToken::kGreek, U"xi"},
    Literal{U"\\Xi", MathToken::kGreek, U"xi"}, Literal{U"\\omicron", MathToken::kGreek, U"omicron"},
    Literal{U"\\pi", MathToken::kGreek, U"pi"}, Literal{U"\\Pi", MathToken::kGreek, U"pi"},
    Literal{U"\\varpi", MathToken::kGreek, U"varpi"}, Literal{U"\\rho", MathToken::kGreek, U"rho"},
    Literal{U"\\varrho", MathToken::kGreek, U"varrho"}, Literal{U"\\sigma", MathToken::kGreek, U"sigma"},
    Literal{U"\\Sigma", MathToken::kGreek, U"sigma"}, Literal{U"\\varsigma", MathToken::kGreek, U"varsigma"},
    Literal{U"\\tau", MathToken::kGreek, U"tau"}, Literal{U"\\upsilon", MathToken::kGreek, U"upsilon"},
    Literal{U"\\phi", MathToken::kGreek, U"phi"}, Literal{U"\\Phi", MathToken::kGreek, U"phi"},
    Literal{U"\\varphi", MathToken::kGreek, U"varphi"}, Literal{U"\\chi", MathToken::kGreek, U"chi"},
    Literal{U"\\psi", MathToken::kGreek, U"psi"}, Literal{U"\\Psi", MathToken::kGreek, U"psi"},
    Literal{U"\\omega", MathToken::kGreek, U"omega"}, Literal{U"\\Omega", MathToken::kGreek, U"omega"},
    Literal{U"π", MathToken::kGreek, U"pi"}, Literal{U"α", MathToken::kGreek, U"alpha"},
    Literal{U"β", MathToken::kGreek, U"beta"}, Literal{U"θ", MathToken::kGreek, U"theta"},
    Literal{U"λ", MathToken::kGreek, U"lambda"}, Literal{U"μ", MathToken::kGreek, U"mu"},
    Literal{U"σ", MathToken::kGreek, U"sigma"}, Literal{U"φ", MathToken::kGreek, U"varphi"},
    Literal{U"ω", MathToken::kGreek, U"omega"},
    Literal{U"\\ell", MathToken::kGreek, U"ell"}, Literal{U"\\triangle", MathToken::kGreek, U"triangle"},
    Literal{U"\\angle", MathToken::kGreek, U"angle"}, Literal{U"\\prime", MathToken::kGreek, U"prime"},
    Literal{U"\\square", MathToken::kGreek, U"square"}, Literal{U"\\varnothing", MathToken::kGreek, U"varnothing"},
    // words that the grammar keeps for functions: text that holds one does not parse
    Literal{U"gcd", MathToken::kUnknown, {}}, Literal{U"lcm", MathToken::kUnknown, {}},
    Literal{U"floor", MathToken::kUnknown, {}}, Literal{U"ceil", MathToken::kUnknown, {}},
    Literal{U"eye", MathToken::kUnknown, {}}, Literal{U"zeros", MathToken::kUnknown, {}},
    Literal{U"ones", MathToken::kUnknown, {}}, Literal{U"cols", MathToken::kUnknown, {}},
    Literal{U"rows", MathToken::kUnknown, {}}, Literal{U"diag", MathToken::kUnknown, {}},
    Literal{U"norm", MathToken::kUnknown, {}}, Literal{U"rank", MathToken::kUnknown, {}},
    Literal{U"trace", MathToken::kUnknown, {}}, Literal{U"tr", MathToken::kUnknown, {}},
    Literal{U"rref", MathToken::kUnknown, {}}, Literal{U"hstack", MathToken::kUnknown, {}},
    Literal{U"vstack", MathToken::kUnknown, {}}, Literal{U"orth", MathToken::kUnknown, {}},
    Literal{U"ortho", MathToken::kUnknown, {}}, Literal{U"orthogonal", MathToken::kUnknown, {}},
    Literal{U"nullspace", MathToken::kUnknown, {}}, Literal{U"eig", MathToken::kUnknown, {}},
    Literal{U"eigen", MathToken::kUnknown, {}}, Literal{U"diagonalize", MathToken::kUnknown, {}},
    Literal{U"svd", MathToken::kUnknown, {}}, Literal{U"SVD", MathToken::kUnknown, {}},
    Literal{U"matrix", MathToken::kUnknown, {}}, Literal{U"pmatrix", MathToken::kUnknown, {}},
    Literal{U"bmatrix", MathToken::kUnknown, {}}, Literal{U"vmatrix", MathToken::kUnknown, {}},
    Literal{U"arsinh", MathToken::kUnknown, {}}, Literal{U"arcsinh", MathToken::kUnknown, {}},
    Literal{U"arcosh", MathToken::kUnknown, {}}, Literal{U"arccosh", MathToken::kUnknown, {}},
    Literal{U"artanh", MathToken::kUnknown, {}}, Literal{U"arctanh", MathToken::kUnknown, {}},
};

// Commands with text in braces. `text`: the name it gets before the braces; empty: only the text.
struct Accent { View spelling; View name; };
constexpr std::array kAccents = {
    Accent{U"\\text", {}}, Accent{U"\\textit", {}}, Accent{U"\\textbf", {}}, Accent{U"\\textnormal", {}},
    Accent{U"\\mbox", {}}, Accent{U"\\overline", U"bar"}, Accent{U"\\bar", U"bar"}, Accent{U"\\vec", U"vec"},
    Accent{U"\\overrightarrow", U"vec"}, Accent{U"\\hat", U"hat"}, Accent{U"\\tilde", U"tilde"},
    Accent{U"\\widetilde", U"tilde"}, Accent{U"\\dot", U"dot"}, Accent{U"\\ddot", U"ddot"}, Accent{U"\\bm", U"bm"},
    Accent{U"\\boldsymbol", U"boldsymbol"}, Accent{U"\\mathbb", U"math"}, Accent{U"\\mathbf", U"math"},
    Accent{U"\\mathcal", U"math"}, Accent{U"\\mathfrak", U"math"}, Accent{U"\\mathit", U"math"},
    Accent{U"\\mathnormal", U"math"}, Accent{U"\\mathrm", U"math"}, Accent{U"\\mathscr", U"math"},
    Accent{U"\\mathsf", U"math"}, Accent{U"\\mathtt", U"math"},
};
// clang-format on

bool is_digit(char32_t c) {
  return c >= U'0' && c <= U'9';
}
bool is_blank(char32_t c) {
  return c == U' ' || c == U'\t' || c == U'\r' || c == U'\n';
}

// By their first character, each list in the order of the table.
const std::vector<const Literal*>& literals_from(char32_t first) {
  static const std::map<char32_t, std::vector<const Literal*>> all = [] {
    std::map<char32_t, std::vector<const Literal*>> out;
    for (const Literal& one : kLiterals) out[one.spelling[0]].push_back(&one);
    return out;
  }();
  static const std::vector<const Literal*> none;
  const auto found = all.find(first);
  return found == all.end() ? none : found->second;
}

class Lexer {
 public:
  explicit Lexer(View text) : text_(text), close_(text.find(U'}')) {}

  std::vector<MathToken> cut() {
    std::vector<MathToken> out;
    while (at_ < text_.size()) {
      if (is_blank(text_[at_])) {
        ++at_;
        continue;
      }
      best_ = {MathToken::kUnknown, {}, at_, at_};
      skip_ = false;
      literals();
      accents();
      numbers();
      letters();
      if (best_.end == at_) return {};
      if (!skip_) out.push_back(best_);
      at_ = best_.end;
    }
    out.push_back({MathToken::kEnd, {}, at_, at_});
    return out;
  }

 private:
  // The longest wins; of equal ones the first.
  void offer(MathToken::Type type, View text, std::size_t end, bool skip = false) {
    if (end <= best_.end) return;
    best_ = {type, std::u32string(text), at_, end};
    skip_ = skip;
  }

  char32_t peek(std::size_t at) const { return at < text_.size() ? text_[at] : U'\0'; }

  void literals() {
    for (const Literal* const one : literals_from(text_[at_])) {
      if (text_.substr(at_, one->spelling.size()) != one->spelling) continue;
      std::size_t end = at_ + one->spelling.size();
      if (one->type == MathToken::kGreek && peek(end) == U' ') ++end;
      offer(one->type, one->text, end, one->type == kSkip);
    }
  }

  // The first '}' from `at` on; asked at places that go up, it looks at each character once.
  std::size_t next_close(std::size_t at) {
    if (close_ != View::npos && close_ < at) close_ = text_.find(U'}', at);
    return close_;
  }

  void accents() {
    if (text_[at_] != U'\\') return;
    for (const Accent& one : kAccents) {
      if (text_.substr(at_, one.spelling.size()) != one.spelling) continue;
      std::size_t open = at_ + one.spelling.size();
      if (is_blank(peek(open))) ++open;
      const std::size_t close = peek(open) == U'{' ? next_close(open) : View::npos;
      if (close == View::npos) continue;
      std::u32string inside;
      for (const char32_t c : text_.substr(open + 1, close - open - 1))
        if (c != U' ' && (!one.name.empty() || (c != U'(' && c != U')'))) inside += c;
      if (!one.name.empty()) inside = std::u32string(one.name) + U"{" + inside + U"}";
      offer(MathToken::kText, inside, close + 1);
    }
  }

  std::size_t digits(std::size_t at) const {
    while (is_digit(peek(at))) ++at;
    return at;
  }

  void numbers() {
    std::size_t end = digits(at_);
    if (peek(end) == U'.' && is_digit(peek(end + 1))) end = digits(end + 1);
    if (end == at_) return;
    const View number = text_.substr(at_, end - at_);
    if (peek(end) == U'E') {
      const std::size_t sign = peek(end + 1) == U'-' || peek(end + 1) == U'+' ? end + 2 : end + 1;
      if (is_digit(peek(sign))) {
        const std::size_t last = digits(sign);
        offer(MathToken::kScientific, text_.substr(at_, last - at_), last);
      }
    }
    const std::size_t sign = is_blank(peek(end)) ? end + 1 : end;
    if (peek(sign) == U'%') offer(MathToken::kPercent, number, sign + 1);
    if (peek(sign) == U'\\' && peek(sign + 1) == U'%') offer(MathToken::kPercent, number, sign + 2);
    offer(MathToken::kNumber, number, end);
  }

  void letters() {
    const char32_t c = text_[at_];
    if (!is_letter(c)) return;
    if (c == U'd') {  // d x, d\theta
      std::size_t next = at_ + 1;
      while (is_blank(peek(next))) ++next;
      std::size_t end = next;
      if (is_letter(peek(next))) {
        end = next + 1;
      } else if (peek(next) == U'\\' && is_letter(peek(next + 1))) {
        end = next + 2;
        while (is_letter(peek(end))) ++end;
        ++next;
      }
      if (end > next) offer(MathToken::kDifferential, text_.substr(next, end - next), end);
    }
    offer(c == U'e' ? MathToken::kExponential : MathToken::kLetter, text_.substr(at_, 1), at_ + 1);
  }

  View text_;
  std::size_t at_ = 0;
  std::size_t close_;
  MathToken best_{};
  bool skip_ = false;
};

}  // namespace

bool has_undecided_latex(const std::vector<MathToken>& tokens, const std::u32string& text) {
  static constexpr View kOurs[] = {U"begin matrix", U"begin vmatrix", U"begin array", U"end matrix",
                                   U"sum",          U"prod",          U"int",         U"gcd",
                                   U"lcm",          U"max",           U"min",         U"det"};
  return std::ranges::any_of(tokens, [&](const MathToken& one) {
    if (one.type == MathToken::kUnknown) return text[one.begin] == U'\\';
    if (one.type == MathToken::kMark) return one.text == U"&" || one.text == U"\\\\";
    return one.type == MathToken::kCommand && std::ranges::find(kOurs, one.text) != std::end(kOurs);
  });
}

std::vector<MathToken> tokenize_latex(const std::u32string& text) {
  return Lexer(text).cut();
}

}  // namespace hone::rewards
