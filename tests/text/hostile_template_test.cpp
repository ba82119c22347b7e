// Chat templates made to harm: each ends in a sentence or a text, and none in a signal, gigabytes or an
// endless loop.
#include <gtest/gtest.h>

#include "base/process/address_sanitizer.h"
#include "children.h"
#include "helpers.h"
#include "template_corpus.h"
#include "text/chat_template.h"

namespace hone::text {
namespace hostile_template_test {

std::string outcome(const std::string& source) {
  return outcome_in_child([&] { render_hello(source); });
}

TEST(HostileTemplate, OrdinaryErrorsComeBeforeTheSandbox) {
  const struct {
    std::string source, found;
  } cases[] = {
      {kNamespace + "{% set ns.x = ns %}{{ ns }}", "the value holds itself, or has more than 200 levels"},
      {kNamespace + "{% set ns.x = ns %}{{ ns | string }}", "the value holds itself"},
      {kNamespace + "{% set ns.x = ns %}{{ ns | tojson }}", "Circular reference detected"},
      {kNamespace + kDeepList + "{{ ns.x }}", "the value holds itself, or has more than 200 levels"},
      {repeat("{% set x = [x, x] %}", 60) + "{{ x }}", "the value has more than 1000000 parts"},
      {"{{ " + repeat("- ", 20'000) + "1 }}", "applies more than 1000 operators to one another"},
      {"{% set x = [1]" + repeat(" + [1]", 20'000) + " %}", "applies more than 1000 operators"},
      {"{% if a %}" + repeat("{% elif b %}", 20'000) + "{% endif %}", "more than 1000 branches of elif"},
      {std::string(300'000, ' '), "the source has 300000 bytes; at most 262144 are read"},
      {"{{ 'a'.ljust(999999999999) }}", "a width of 999999999999; at most 1000000 is allowed"},
      {"{{ '1'.zfill(999999999999) }}", "a width of 999999999999"},
      {"{{ [1] | tojson(indent=999999999999) }}", "a width of 999999999999"},
      {kNamespace + "{% set ns.x = ns %}{{ [ns] | join }}", "the value holds itself"},
      {kNamespace + "{% set ns.x = ns %}{{ ns ~ 'a' }}", "the value holds itself"},
      {"{{ 'a' | indent(999999999999) }}", "a width of 999999999999"},
      {"{{ 'a' | indent(18446744073709551615) }}", "cannot convert"},
      {"{{ '%999999999999d' | format(1) }}", "a width of"},
      {"{{ '{:>999999999999}'.format(1) }}", "a width of"},
      {"{{ 'a' | center(999999999999) }}", "a width of 999999999999"},
      {"{{ 'a' * 1000000000 }}", "repeated string is too large"},
      {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
       "a template that runs more instructions than a conversation of this size can need"},
      {"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "recursion limit exceeded"},
      {"{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}", "recursion limit exceeded"},
      {"{% extends 'chat_template' %}", "cycle in template inheritance"},
      {"{{ debug() }}", "unknown function: debug"},
      {"{{ raise_exception('a' * 1000000) }}", "... (1000000 bytes)"}};
  for (const auto& [source, found] : cases) {
    const std::string message = outcome(source);
    EXPECT_TRUE(contains(message, found)) << source.substr(0, 80) << "\n" << message;
  }
}

TEST(HostileTemplate, TheSandboxStopsTheRest) {
  const struct {
    std::string source, found;
  } cases[] = {
      {"{{ ('a' * 99999999) ~ 'b' }}", "a template that needs more than 64 MB of memory"},
      {kNamespace +
           "{% set ns.x = 'aaaaaaaa' %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
       "a template that needs more than 64 MB of memory"},
      {"{% set s = 'a' * 9999999 %}{{ s.replace('a', s) }}", "needs more than 64 MB of memory"}};
  for (const auto& [source, found] : cases) {
    const std::string message = outcome(source);
    EXPECT_TRUE(contains(message, "expected a chat template within the limits")) << message;
    EXPECT_TRUE(contains(message, found)) << source.substr(0, 80) << "\n" << message;
  }
}

TEST(HostileTemplate, WorkWithoutMemoryEndsByItsTime) {
  const std::string both = repeat("{% set x = [x, x] %}{% set y = [y, y] %}", 60);
  const std::string message = outcome(both + "{{ x == y }}");
  EXPECT_TRUE(contains(message, "a template that takes more than 1 s of CPU time")) << message;
}

TEST(HostileTemplate, EveryEntryOfTheCorpusEnds) {
  for (const std::string& source : template_corpus()) outcome(source);
}

TEST(HostileTemplate, SlowEveryCostlyTemplateEnds) {
  for (const std::string& source : costly_templates())
    EXPECT_NE(outcome(source), "") << source.substr(0, 100);
}

TEST(HostileTemplate, AProcessIsNotFilledByManyOfThem) {
  const std::string message = outcome_in_child([] {
    for (int i = 0; i < 12; ++i) {
      EXPECT_THROW(render_hello("{% set s = 'a' * 9999999 %}{{ s.replace('a', s) }}"), base::UserError);
    }
    render_hello("{{ 1 }}");
  });
  EXPECT_TRUE(contains(message, "12 attempts met their limits in this process")) << message;
  const std::string cycles = outcome_in_child([] {
    const std::string source =
        kNamespace + "{% set ns.x = ns %}{% set ns.y = 'a' * (1000000 * messages | length) %}";
    for (int i = 0; i < 100; ++i) render_hello(source);
  });
  EXPECT_TRUE(contains(cycles, "makes namespaces that hold themselves")) << cycles;
}

TEST(HostileTemplate, LongConversationsAreFarFromTheLimits) {
  if (base::kHasAddressSanitizer)
    GTEST_SKIP() << "AddressSanitizer's allocator makes it ten times slower than the limit is meant for";
  ChatRequest request;
  request.messages = base::Json::array();
  for (int i = 0; i < 4000; ++i) {
    request.messages.push_back(
        {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(500, 'a')}});
  }
  // Lists that grow message by message, text that grows character by character: costly, and allowed.
  const std::string source =
      "{% set ns = namespace(all=[], text='') %}{% for m in messages %}{% set ns.all = ns.all + [m] %}{% if "
      "ns.all | length < 300 %}{% for c in m.content %}{% set ns.text = ns.text ~ c %}{% endfor %}{% endif "
      "%}{{ m.content }}{% endfor %}{{ ns.text }}";
  const ChatTemplate chat_template(source, {}, "x");
  EXPECT_EQ(chat_template.render(request).text.size(), 4000U * 500 + 299 * 500);
}

}  // namespace hostile_template_test
}  // namespace hone::text
