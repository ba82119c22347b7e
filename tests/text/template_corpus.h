// Templates that crashed hone, filled its memory or never ended, and others of their kinds.
#pragma once

#include <string>
#include <vector>

#include "text/chat_template.h"

namespace hone::text {

inline std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

inline const std::string kNamespace = "{% set ns = namespace(x=0) %}";
inline const std::string kDeepList = "{% for i in range(3000) %}{% set ns.x = [ns.x] %}{% endfor %}";

inline std::size_t render_hello(const std::string& source) {
  ChatRequest request;
  request.messages = base::Json::array({{{"role", "user"}, {"content", "hello"}}});
  return ChatTemplate(source, {}, "x").render(request).text.size();
}

inline std::vector<std::string> template_corpus() {
  return {
      kNamespace + "{% set ns.x = [ns] %}{{ ns.x == ns.x }}{{ [ns.x] | unique | length }}",
      kNamespace + "{% set ns.x = {'a': ns} %}{{ ns.x | dictsort }}{{ ns.x | items | list }}",
      kNamespace + "{% set ns.x = ns %}{{ ns in [ns] }}{{ [ns, ns] | sort }}",
      kNamespace + "{% set ns.x = ns %}{{ '%s' | format(ns) }}",
      kNamespace + "{% set ns.x = [ns] | map(attribute='x') %}{{ ns.x | list }}",
      kNamespace + "{% set ns.x = ns %}{{ raise_exception(ns) }}",
      kNamespace + "{% set ns.x = ns %}{{ undefined_function(ns) }}{{ ns() }}{{ ns.y.z }}",
      kNamespace + kDeepList + "{{ ns.x | tojson }}",
      kNamespace + kDeepList + "{{ ns.x == ns.x }}{{ [ns.x] | unique | length }}",
      kNamespace +
          "{% set ns.x = 'aa' %}{% for i in range(60) %}{% set ns.x = ns.x | replace('a', ns.x) %}{% endfor "
          "%}",
      kNamespace +
          "{% set ns.x = 'aa' %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] | join %}{% endfor %}",
      repeat("{% set x = {'a': x, 'b': x} %}", 60) + "{{ x | tojson }}",
      repeat("{% set x = [x, x] %}", 60) + "{{ x | string | length }}",
      repeat("{% set x = x | map('string') %}", 5000) + "{{ x | list }}",
      repeat("{% set x = x | select %}", 5000) + "{{ x | list }}",
      repeat("{% set x = x | reverse %}", 5000) + "{{ x | list }}",
      repeat("{% set x = [x] %}", 12'000),
      repeat("{% if 1 %}", 5000) + repeat("{% endif %}", 5000),
      repeat("{% generation %}", 140) + "a" + repeat("{% endgeneration %}", 140),
      "{{ " + std::string(20'000, '(') + " }}",
      "{{ " + std::string(20'000, '[') + std::string(20'000, ']') + " }}",
      "{{ " + repeat("not ", 900) + "1 }}",
      "{{ " + repeat("1 if 1 else ", 490) + "1 }}",
      "{{ x" + repeat("()", 900) + "}}{{ x" + repeat("[0]", 900) + "}}",
      "{{ [1]" + repeat("|list", 900) + " }}",
      "{{ [1]" + repeat("|map('string')", 900) + "|list }}",
      "{{ 2" + repeat(" ** 2", 900) + " }}",
      "{{ 'a'" + repeat(" ~ 'a'", 900) + " }}",
      "{{ '" + std::string(100'000, '\\') + " }}",
      "{{ range(100000) | list * 900 | length }}{{ (range(100000) | list * 900) | list }}",
      "{{ 1 / 0 }}",
      "{{ 1 % 0 }}",
      "{{ 2 ** 9999999 }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      "{{ 170141183460469231731687303715884105727 + 1 }}",
      "{{ -170141183460469231731687303715884105728 }}",
      "{{ 'abc'[::0] }}",
      "{{ 'abc'[-9223372036854775808:9223372036854775807] }}",
      "{{ [1] | batch(0) }}",
      "{{ [1] | batch(9999999999, 1) }}",
      "{{ [1] | slice(9999999999, 1) }}",
      "{{ range(1, 10, 0) }}",
      "{{ range(-9223372036854775808, 9223372036854775807, 1) | list }}",
      "{{ 1.5 | round(999999999) }}",
      "{{ 1e308 * 1e308 }}{{ (1e308 * 1e308) | int }}",
      "{{ 'x' | int(base=99) }}{{ 'zz' | int(base=1) }}",
      "{{ '9' * 1000 | int }}{{ ('9' * 1000) | int }}{{ ('9' * 1000) | float }}",
      "{{ strftime_now('%999999999Y') }}",
      "{{ strftime_now('%' ~ '0' * 100000 ~ 'Y') }}",
      "{{ strftime_now('\\u0000') }}",
      "{{ 'x'.rsplit('a', 9223372036854775807) }}",
      "{{ 'a b'.split(' ', -9223372036854775808) }}",
      "{{ 'abc'.split('') }}",
      "{{ 'abc'.replace('', 'x', 99999999) }}",
      "{{ 'abc' | replace('', 'x') }}",
      "{{ 'x'.partition('') }}",
      "{{ 'a' | format(*range(100000)) }}",
      "{{ '%*d' | format(999999999, 1) }}",
      "{{ '{0.__class__}'.format(1) }}{{ '{' * 1000 }}{{ ('{' * 10000).format(1) }}",
      "{{ lipsum(100000) }}",
      "{{ cycler(1).next() }}",
      "{{ joiner() }}",
      "{{ self.x() }}",
      "{{ loop }}",
      "{{ super() }}",
      "{% include 'chat_template' %}",
      "{% import 'chat_template' as x %}",
      "{% from 'chat_template' import x %}",
      "{% block a %}{{ self.a() }}{% endblock %}",
      "{% call(x) f() %}{% endcall %}",
      "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}{% call f() %}{% endcall %}{% endcall %}"};
}

// These use up their memory or their time.
inline std::vector<std::string> costly_templates() {
  const std::string loop = "{% for i in range(90000) %}";
  return {
      kNamespace + repeat(loop + "{% set ns.x = [ns.x] %}{% endfor %}", 7),
      kNamespace + loop + "{% set ns.x = [ns.x, i] | map('string') %}{% endfor %}{{ ns.x | list }}",
      kNamespace + loop + "{% set ns.x = ns.x ~ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' %}{% endfor %}",
      kNamespace +
          "{% set ns.x = [1] %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | "
          "length }}",
      kNamespace +
          "{% set ns.x = 'aa' %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) | string %}{% endfor %}",
      kNamespace + "{% set ns.x = ns %}{{ ns | pprint }}",
      repeat("{% set x = x[0:] %}", 5000) + "{{ x | list }}",
      "{% set s = 'a' * 999999 %}" + loop + "{% if (s ~ i) == s %}{% endif %}{% endfor %}"};
}

}  // namespace hone::text
