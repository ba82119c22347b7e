#include "config/reading/open_quote.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <sstream>

#include "base/error.h"

namespace hone::config {
namespace {

class LastScalar final : public YAML::EventHandler {
 public:
  std::string value;
  YAML::Mark mark;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark& at, const std::string&, YAML::anchor_t, const std::string& text) override {
    value = text;
    mark = at;
  }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

// The last scalar of a text; null: it is no YAML.
std::optional<LastScalar> last_scalar(const std::string& text) {
  LastScalar out;
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(out);
  } catch (const YAML::Exception&) {
    return std::nullopt;
  }
  return out;
}

}  // namespace

// A comment with both quotes behind the text changes what is read exactly where one is open.
void refuse_open_quote(const std::string& text, const std::string& file_name) {
  if (text.find_first_of("'\"") == std::string::npos) return;
  const auto plain = last_scalar(text + "\n"), closed = last_scalar(text + "\n# '\"\n");
  if (!plain || (closed && closed->value == plain->value)) return;
  throw base::UserError({.where = fmt::format("{}:{}", file_name, plain->mark.line + 1),
                         .expected = "a quote that is closed",
                         .found = "the file ends inside the text that it begins",
                         .cause = "an unclosed quote: the lines behind it are part of the text",
                         .fix = "close it, or write '' for a single quote inside"});
}

}  // namespace hone::config
