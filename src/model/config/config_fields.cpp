#include "model/config/config_fields.h"

#include "base/error.h"
#include "base/json_tools.h"

namespace hone::model {

using base::Json;
using base::UserError;

const Json* lookup(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it == json.end() || it->is_null() ? nullptr : &*it;
}

[[noreturn]] void wrong_type(const std::string& where, const std::string& key, const char* expected,
                             const Json& v) {
  throw UserError({where, key + " as " + expected, base::short_json(v), "the file was edited by hand", ""});
}

std::int64_t int_or(const Json& json, const char* key, std::int64_t fallback, const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) return fallback;
  if (!v->is_number_integer()) wrong_type(where, key, "an integer", *v);
  const bool fits = !v->is_number_unsigned() || v->get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
  if (!fits) wrong_type(where, key, "an integer below 2^63", *v);
  return v->get<std::int64_t>();
}

std::int64_t positive(const Json& json, const char* key, const std::string& where, std::int64_t most) {
  const Json* v = lookup(json, key);
  if (v == nullptr) {
    throw UserError({where, std::string("the field ") + key, "no such field",
                     "this is not the config.json of a causal language model",
                     "use the folder of the whole model"});
  }
  const std::int64_t n = int_or(json, key, 0, where);
  if (n <= 0) wrong_type(where, key, "a positive integer", *v);
  if (n > most) {
    throw UserError({where, std::string(key) + " of at most " + std::to_string(most), std::to_string(n),
                     "the file is damaged", ""});
  }
  return n;
}

double float_or(const Json& json, const char* key, double fallback, const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) return fallback;
  if (!v->is_number()) wrong_type(where, key, "a number", *v);
  return v->get<double>();
}

bool bool_or(const Json& json, const char* key, bool fallback, const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) return fallback;
  if (!v->is_boolean()) wrong_type(where, key, "true or false", *v);
  return v->get<bool>();
}

std::string string_or(const Json& json, const char* key, const std::string& fallback,
                      const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) return fallback;
  if (!v->is_string()) wrong_type(where, key, "a string", *v);
  return v->get<std::string>();
}

double positive_float(const Json& json, const char* key, const std::string& where) {
  const Json* v = lookup(json, key);
  if (v == nullptr) {
    throw UserError({where, std::string("the field ") + key + " of the rope scaling", "no such field",
                     "an incomplete rope_scaling or rope_parameters", ""});
  }
  const double x = float_or(json, key, 0, where);
  if (!(x >= kLeastFactor && x <= kMaxFactor)) wrong_type(where, key, "a positive number", *v);
  return x;
}

}  // namespace hone::model
