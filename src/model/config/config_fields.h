// Fields of a config.json. Internal to what reads one (model_config.cpp, family_fields.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/gguf/gguf.h"
#include "base/json.h"

namespace hone::model {

// Products of these stay within 64 bits, and fp32 holds the factors.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 24;  // rows or columns of a matrix
constexpr std::int64_t kMaxLayers = 10000;
constexpr std::int64_t kMaxInt32 = 0x7FFFFFFF;             // positions, token ids
constexpr double kLeastFactor = 1e-12, kMaxFactor = 1e30;  // of what scales positions and values

// The value of `key`, or nullptr when it is absent or null: transformers treats both alike.
const base::Json* lookup(const base::Json& json, const char* key);

[[noreturn]] void wrong_type(const std::string& where, const std::string& key, const char* expected,
                             const base::Json& v);

// The field, or the fallback when it is absent or null; UserError for one of another type.
std::int64_t int_or(const base::Json& json, const char* key, std::int64_t fallback, const std::string& where);
double float_or(const base::Json& json, const char* key, double fallback, const std::string& where);
bool bool_or(const base::Json& json, const char* key, bool fallback, const std::string& where);
std::string string_or(const base::Json& json, const char* key, const std::string& fallback,
                      const std::string& where);
// A field that must be there, from 1 to `most`; the second one of a rope scaling, within kLeastFactor and kMaxFactor.
std::int64_t positive(const base::Json& json, const char* key, const std::string& where,
                      std::int64_t most = kMaxExtent);
double positive_float(const base::Json& json, const char* key, const std::string& where);

// A list of a GGUF's metadata; null: it has one value for all layers, or none.
const std::vector<std::int64_t>* int_list(const base::GgufFile& file, const std::string& key);

// A fp32 metadata number as the shortest decimal that gives it back: 9.999999747378752e-06 was 1e-05.
double as_written(double value);

}  // namespace hone::model
