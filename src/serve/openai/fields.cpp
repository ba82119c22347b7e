#include "serve/openai/fields.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/strings/suggest.h"

namespace hone::serve::openai {

namespace {

// Brackets outside of texts: the parser itself recurses.
int depth_of(std::string_view text) {
  int depth = 0, most = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return most;
}

std::string shown(const base::Json& value) {
  std::string text = base::dump_json(value);
  if (text.size() <= 60) return text;
  text.resize(60);
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) text.pop_back();
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0U) text.pop_back();
  return text + "...";
}

}  // namespace

base::Json parse_body(const std::string& body) {
  if (depth_of(body) > kMostDepth)
    throw Refusal(400, "the request is nested deeper than " + std::to_string(kMostDepth) + " levels");
  try {
    return base::parse_json(body, "the request");
  } catch (const base::UserError& error) {
    throw Refusal(400, "the request is no JSON: " + error.text().where + " " + error.text().found);
  }
}

Fields::Fields(base::Json body, std::string within) : body_(std::move(body)), within_(std::move(within)) {
  if (!body_.is_object())
    throw Refusal(400, (within_.empty() ? "the request" : within_) + " must be a JSON object", within_);
}

std::string Fields::path_of(const std::string& name) const {
  return within_.empty() ? name : within_ + "." + name;
}

void Fields::refuse(const std::string& name, const std::string& expected) const {
  throw Refusal(400,
                path_of(name) + " must be " + expected + ", not " + shown(body_.value(name, base::Json())),
                path_of(name));
}

const base::Json& Fields::value(const std::string& name) {
  static const base::Json kNull;
  known_.insert(name);
  const auto place = body_.find(name);
  return place == body_.end() ? kNull : *place;
}

bool Fields::has(const std::string& name) {
  return !value(name).is_null();
}

std::string Fields::text(const std::string& name, const std::string& otherwise) {
  const base::Json& given = value(name);
  if (given.is_null()) return otherwise;
  if (!given.is_string()) refuse(name, "a text");
  return given.get<std::string>();
}

bool Fields::flag(const std::string& name, bool otherwise) {
  const base::Json& given = value(name);
  if (given.is_null()) return otherwise;
  if (!given.is_boolean()) refuse(name, "true or false");
  return given.get<bool>();
}

std::optional<std::int64_t> Fields::integer(const std::string& name, std::int64_t least, std::int64_t most) {
  const std::optional<double> given = number(name, static_cast<double>(least), static_cast<double>(most));
  if (!given) return {};
  if (*given != std::floor(*given)) refuse(name, "a whole number");
  // Seeds need all 64 bits.
  const base::Json& whole = value(name);
  return whole.is_number_integer() ? whole.get<std::int64_t>() : static_cast<std::int64_t>(*given);
}

std::optional<double> Fields::number(const std::string& name, double least, double most) {
  const base::Json& given = value(name);
  if (given.is_null()) return {};
  if (!given.is_number()) refuse(name, "a number");
  const double number = given.get<double>();
  if (!(number >= least && number <= most))
    refuse(name, "from " + base::Json(least).dump() + " to " + base::Json(most).dump());
  return number;
}

std::vector<std::int64_t> Fields::integers(const std::string& name) {
  const base::Json& given = value(name);
  if (given.is_null()) return {};
  if (!given.is_array()) refuse(name, "a list of token ids");
  std::vector<std::int64_t> out;
  for (const base::Json& one : given) {
    if (!one.is_number_integer()) refuse(name, "a list of token ids");
    out.push_back(one.get<std::int64_t>());
  }
  return out;
}

void Fields::neutral(const std::string& name, const base::Json& neutral, const std::string& why) {
  const base::Json& given = value(name);
  if (given.is_null() || given == neutral) return;
  throw Refusal(400, path_of(name) + " is not supported: " + why, path_of(name), "unsupported_parameter");
}

void Fields::finish() const {
  const std::vector<std::string> known(known_.begin(), known_.end());
  for (const auto& [name, ignored] : body_.items()) {
    if (known_.contains(name)) continue;
    throw Refusal(400, "unknown field " + shown(name) + "." + base::did_you_mean(name, known), path_of(name),
                  "unknown_parameter");
  }
}

}  // namespace hone::serve::openai
