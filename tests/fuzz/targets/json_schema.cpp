// A JSON schema of a request, as the expression that its answers match.
#include "base/strings/pattern.h"
#include "fuzz/targets/target.h"
#include "serve/openai/errors.h"
#include "serve/openai/schema_pattern.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view text) {
    const base::Json schema = base::parse_json(std::string(text), "fuzz");
    std::string expression;
    try {
      expression = serve::openai::pattern_of_schema(schema);
    } catch (const serve::openai::Refusal& refusal) {
      throw base::UserError({.where = "fuzz", .found = refusal.what()});
    }
    try {
      base::Pattern whole(expression);
    } catch (const base::UserError& error) {
      fuzz::finding(std::string("an expression that is none: ") + error.what());
    }
  });
}
