// What the words of the options name: found and described as transformers does, or refused with the file, the function and the argument.
#include "base/files/file.h"
#include "tools/pool_helpers.h"
#include "tools/tool_spec.h"

namespace hone::tools {
namespace tool_load_test {

std::string fixture() {
  return std::string(HONE_FIXTURES) + "/tools/";
}

// Those of functions; methods are in tool_pool_test.
TEST(ToolSchemas, AreThoseOfTransformers) {
  const Json recorded =
      base::parse_json(base::read_text(fixture() + "schemas.json"), "schemas.json").at("schemas");
  std::string names;
  std::vector<Json> expected;
  for (const auto& [name, schema] : recorded.items()) {
    if (schema.is_null() || name.find('.') != std::string::npos) continue;
    names += (names.empty() ? "" : ",") + name;
    expected.push_back(schema);
  }
  ASSERT_GE(expected.size(), 19U);
  PoolOptions options;
  options.tools = {fixture() + "tools.py:" + names};
  const ToolPool pool(options);
  ASSERT_EQ(pool.tools("").size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(base::dump_json(pool.tools("")[i].schema), base::dump_json(expected[i]));
}

TEST(ToolLoad, WordsOfTheOptions) {
  const ToolFile file = parse_tool_word(fixture() + "tools.py: plain , both", "tools");
  EXPECT_TRUE(file.is_file);
  EXPECT_EQ(file.names, (std::vector<std::string>{"plain", "both"}));
  const ToolFile module = parse_tool_word("hone.tools.calculator", "tools");
  EXPECT_FALSE(module.is_file);
  EXPECT_EQ(module.file_or_module, "hone.tools");
  EXPECT_EQ(module.names, (std::vector<std::string>{"calculator"}));
  EXPECT_EQ(parse_tool_word("package.module:f", "tools").file_or_module, "package.module");
  const auto says = [](const std::string& word) {
    return message_of([&] { parse_tool_word(word, "tools"); });
  };
  expect_says(says("calculator"), {"tools calculator", "no file and no module", "tools.py:calculator"});
  expect_says(says("tools.py"), {"no name of a function", "tools.py:name"});
  expect_says(says(":f"), {"no file and no module"});
  expect_says(says("a.b:f,,g"), {"no name of a function", "commas"});
  expect_says(says("a.b:f,f"), {"f twice"});
  expect_says(says(fixture() + "tool.py:f"), {"no such file", "tools.py"});
}

TEST(ToolLoad, WhatIsNoToolIsNamed) {
  const auto says = [](const std::string& name) {
    return message_of([&] {
      PoolOptions options;
      options.tools = {fixture() + "tools.py:" + name};
      const ToolPool pool(options);
    });
  };
  expect_says(says("no_docstring"), {"tools.py:no_docstring: no_docstring (tools.py:", "docstring", "Args:"});
  expect_says(says("no_hint"), {"no_hint, argument a (tools.py:", "a type hint", "def no_hint(a: str, ...)"});
  expect_says(says("no_description"), {"no_description, argument b", "does not describe b"});
  expect_says(says("custom_inside"), {"argument a", "Custom, which has no JSON schema"});
  expect_says(says("plane"), {"a function plane in tools.py", "no such name", "did you mean plain"});
  expect_says(says("Custom"), {"a function Custom", "a class"});
}

TEST(ToolLoad, WhatCannotBeLoadedIsNamed) {
  const ToolsFile file(R"PY(
import time
def same() -> str:
    """Same."""
other = same
class NoReset:
    def go(self) -> str:
        """Goes."""
class Clash:
    def reset(self): pass
    def same(self) -> str:
        """Same."""
class Untyped:
    def reset(self): pass
    def step(self, way):
        """Steps.

        Args:
            way: where to
        """
class Raises:
    def __init__(self): self.port = open("/nowhere/at/all")
    def reset(self): pass
class Leaves:
    def __init__(self): import os; print("goodbye", flush=True); os._exit(5)
    def reset(self): pass
number = 3
)PY");
  expect_says(file.refusal("same,other"), {"tools ", "two are called same"});
  expect_says(file.refusal("", "NoReset"), {"environment ", "a method `reset`", "NoReset, which has go"});
  expect_says(file.refusal("same", "Clash"), {"environment ", "two are called same"});
  expect_says(file.refusal("", "Untyped"), {"environment ", "step, argument way (tools.py:", "a type hint"});
  expect_says(file.refusal("", "Raises"),
              {"environment ", "Raises(), which makes", "FileNotFoundError", "/nowhere/at/all"});
  expect_says(file.refusal("", "Leaves"), {"environment ", "it ended its process with status 5", "goodbye"});
  expect_says(file.refusal("", "number"), {"a class or function number in tools.py", "of type int"});
  expect_says(file.refusal("", "Nothing"), {"no such name", "NoReset"});
  expect_says(file.refusal("", "Clash,Raises"), {"one factory", "2 names", "map of names"});
  const ToolsFile broken("def f(:\n");
  expect_says(broken.refusal("f"), {"tools ", "imports without an error", "SyntaxError"});
  const ToolsFile leaves("import os\nos._exit(7)\n");
  expect_says(leaves.refusal("f"), {"tools ", "ended with status 7"});
  const auto module = message_of([] {
    PoolOptions options;
    options.tools = {"no_such_package.module:f"};
    const ToolPool pool(options);
  });
  expect_says(module, {"a module no_such_package.module", "ModuleNotFoundError"});
  const auto python = message_of([&] {
    PoolOptions options = file.options("same");
    options.python = "/no/python";
    const ToolPool pool(options);
  });
  expect_says(python, {"host of tools", "a Python interpreter to run tools", "No such file"});
}

TEST(ToolLoad, BuiltInToolsAreInTheProgram) {
  PoolOptions options;
  options.tools = {"hone.tools.calculator", "hone.tools:python"};
  ToolPool pool(options);
  EXPECT_EQ(names_of(pool.tools("")), (std::vector<std::string>{"calculator", "python"}));
  EXPECT_EQ(called(pool, "calculator", {{"expression", "3 * (4 + 5)"}}).text, "27");
  expect_says(called(pool, "calculator", {{"expression", "1 / 0"}}).text, {"{'error': 'division by zero'}"});
  EXPECT_EQ(called(pool, "python", {{"code", "x = 6\nx * 7"}}).text, "42\n");
  expect_says(called(pool, "python", {{"code", "1 / 0"}}).text, {"{'error': ", "ZeroDivisionError"});
  for (const std::string& note : pool.notes()) expect_says(note, {"hone.tools.python", "network"});
  options.tools = {"hone.tools.sqlite"};
  expect_says(message_of([&] { const ToolPool none(options); }), {"hone.tools.sqlite", "HONE_SQLITE"});
}

}  // namespace tool_load_test
}  // namespace hone::tools
