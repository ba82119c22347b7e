// Random templates from a grammar of what minijinja knows. Every one ends in a text or a UserError.
#include <gtest/gtest.h>

#include "children.h"
#include "template_corpus.h"

namespace hone::text {
namespace template_fuzz_test {

// A random walk through the grammar. Names are few, so that statements meet each other's values.
class Grammar {
 public:
  explicit Grammar(std::uint64_t seed) : random_(seed) {}

  std::string source() {
    std::string out = "{% set ns = namespace(a='x', b=[1], c={'k': 1}) %}";
    for (std::size_t n = 1 + random_.below(8); n > 0; --n) out += statement(4);
    if (random_.below(8) == 0) out = fuzz::mutated_bytes(out, random_);
    return out;
  }

 private:
  using List = std::vector<std::string>;

  std::string pick(const List& list) { return random_.one_of(list); }

  std::string name() {
    static const List names = {
        "x", "y", "ns",   "ns.a", "ns.b",  "ns.c",     "messages", "messages[0].content",
        "i", "f", "loop", "self", "tools", "undefined"};
    return pick(names);
  }

  std::string constant() {
    static const List constants = {"0",
                                   "1",
                                   "-1",
                                   "3",
                                   "1.5",
                                   "1e308",
                                   "99999999999",
                                   "9223372036854775807",
                                   "100000",
                                   "''",
                                   "'a'",
                                   "'é'",
                                   "'{:>99999999}'",
                                   "'%s'",
                                   "'\\n'",
                                   "'a b'",
                                   "true",
                                   "none",
                                   "[]",
                                   "{}",
                                   "[1, 2, 3]",
                                   "{'a': 1, 'b': [2]}",
                                   "range(9)",
                                   "range(100000)",
                                   "(1, 2)",
                                   "'a' * 1000"};
    return pick(constants);
  }

  std::string arguments(int depth) {
    std::string out;
    for (std::size_t n = random_.below(3); n > 0; --n)
      out += (out.empty() ? "" : ", ") + expression(depth - 1);
    static const List named = {"attribute='a'", "indent=4",  "width=9999999",
                               "reverse=true",  "default=1", "start=1"};
    if (random_.below(6) == 0) out += (out.empty() ? "" : ", ") + pick(named);
    return out;
  }

  std::string expression(int depth) {
    if (depth <= 0) return random_.below(2) == 0 ? name() : constant();
    static const List operators = {" + ",  " - ",  " * ", " / ",  " // ",  " % ",  " ** ", " ~ ",
                                   " == ", " != ", " < ", " >= ", " and ", " or ", " in ", " not in "};
    static const List filters = {
        "abs",      "attr",   "batch",      "bool",   "capitalize", "chain",   "count",   "default",
        "dictsort", "escape", "first",      "float",  "format",     "groupby", "indent",  "int",
        "items",    "join",   "last",       "length", "lines",      "list",    "lower",   "map",
        "max",      "min",    "pprint",     "reject", "rejectattr", "replace", "reverse", "round",
        "safe",     "select", "selectattr", "slice",  "sort",       "split",   "string",  "sum",
        "title",    "tojson", "trim",       "unique", "upper",      "zip"};
    static const List methods = {
        "append",       "capitalize", "copy",       "count",  "endswith", "find",       "format", "get",
        "index",        "items",      "join",       "keys",   "ljust",    "lower",      "lstrip", "partition",
        "removeprefix", "replace",    "rfind",      "rindex", "rjust",    "rpartition", "rsplit", "rstrip",
        "split",        "splitlines", "startswith", "strip",  "title",    "upper",      "values", "zfill"};
    static const List tests = {"defined",  "none",   "string", "mapping",     "sequence",
                               "iterable", "number", "odd",    "divisibleby", "callable",
                               "sameas",   "in",     "eq"};
    static const List functions = {"range", "dict",   "namespace", "raise_exception", "strftime_now", "f",
                                   "loop",  "caller", "debug",     "loop.cycle",      "loop.changed"};
    switch (random_.below(12)) {
      case 0:
      case 1:
        return "(" + expression(depth - 1) + pick(operators) + expression(depth - 1) + ")";
      case 2:
      case 3:
      case 4:
        return "(" + expression(depth - 1) + " | " + pick(filters) + "(" + arguments(depth) + "))";
      case 5:
      case 6:
        return expression(depth - 1) + "." + pick(methods) + "(" + arguments(depth) + ")";
      case 7:
        return "(" + expression(depth - 1) + " is " + pick(tests) + "(" + arguments(depth) + "))";
      case 8:
        return pick(functions) + "(" + arguments(depth) + ")";
      case 9:
        return expression(depth - 1) + "[" + expression(depth - 1) + (random_.below(2) == 0 ? "]" : ":]");
      case 10:
        return "[" + expression(depth - 1) + ", " + expression(depth - 1) + "]";
      default:
        return "(" + expression(depth - 1) + " if " + expression(depth - 1) + " else -" +
               expression(depth - 1) + ")";
    }
  }

  std::string body(int depth) {
    std::string out;
    for (std::size_t n = 1 + random_.below(2); n > 0; --n) out += statement(depth - 1);
    return out;
  }

  std::string statement(int depth) {
    static const List targets = {"x", "y", "ns.a", "ns.b", "ns.c", "ns.d"};
    const std::string value = expression(2 + static_cast<int>(random_.below(2)));
    if (depth <= 0) return "{{ " + value + " }}";
    switch (random_.below(12)) {
      case 0:
      case 1:
        return "{{ " + value + " }}";
      case 2:
      case 3:
      case 4:
        return "{% set " + pick(targets) + " = " + value + " %}";
      case 5:
      case 6:
        return "{% for i in " + value + (random_.below(4) == 0 ? " recursive" : "") + " %}" + body(depth) +
               "{% endfor %}";
      case 7: {  // what grows by its own size each time
        const std::string target = pick(targets);
        return "{% for i in range(" + std::to_string(random_.below(80)) + ") %}{% set " + target + " = [" +
               target + ", " + target + "]" + (random_.below(2) == 0 ? " | join" : "") +
               " %}{% endfor %}{{ " + target + " }}";
      }
      case 8:
        return "{% if " + value + " %}" + body(depth) + "{% else %}" + body(depth) + "{% endif %}";
      case 9:
        return "{% macro f(x) %}" + body(depth) + "{% endmacro %}";
      case 10:
        return "{% generation %}" + body(depth) + "{% endgeneration %}";
      default:
        return "{% set " + pick(targets) + " %}" + body(depth) + "{% endset %}";
    }
  }

  fuzz::Random random_;
};

void fuzz_templates(double seconds) {
  fuzz_in_children(
      seconds, [](std::uint64_t round) { return Grammar(round).source(); },
      [](const std::string& source) { render_hello(source); });
}

TEST(TemplateFuzz, GrammarForSeconds) {
  fuzz_templates(fuzz::seconds(2));
}

TEST(TemplateFuzz, SlowGrammarForAMinute) {
  fuzz_templates(fuzz::seconds(60));
}

}  // namespace template_fuzz_test
}  // namespace hone::text
