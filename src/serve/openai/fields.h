// The fields of a request's JSON object, each read once with its type and range. What is left unread at the
// end is unknown, and refused by name.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/openai/errors.h"

namespace hone::serve::openai {

inline constexpr int kMostDepth = 64;

// A refusal for text that is no JSON, or nested deeper than kMostDepth.
base::Json parse_body(const std::string& body);

class Fields {
 public:
  // A refusal unless `body` is an object. `within`: the field that it is the value of; empty: none.
  explicit Fields(base::Json body, std::string within = "");

  // Null where the field is absent.
  const base::Json& value(const std::string& name);
  bool has(const std::string& name);  // there, and not null
  std::string text(const std::string& name, const std::string& otherwise = "");
  bool flag(const std::string& name, bool otherwise = false);
  std::optional<std::int64_t> integer(const std::string& name, std::int64_t least, std::int64_t most);
  std::optional<double> number(const std::string& name, double least, double most);
  std::vector<std::int64_t> integers(const std::string& name);  // absent: empty
  // A field that hone knows and cannot do: refused unless it is absent, null or `neutral`.
  void neutral(const std::string& name, const base::Json& neutral, const std::string& why);
  // A field that says nothing that changes an answer.
  void ignore(const std::string& name) { (void)value(name); }
  // Refuses what nobody has asked for.
  void finish() const;

  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;
  std::string path_of(const std::string& name) const;

 private:
  base::Json body_;
  std::string within_;
  std::set<std::string> known_;
};

}  // namespace hone::serve::openai
