// The texts of a JSON schema as a regular expression (text/token_pattern.h), for `response_format`.
//
// Every text that it matches is JSON that the schema allows. Not the other way round: properties come in the schema's
// order and no others beside them, a space may follow ':' and ',' and there is no other, and numbers have at most 16
// digits before the point. Where a schema says nothing of a value, it is nested kMostFree deep.
//
// Read: type (one or a list), properties, required, additionalProperties, items, minItems, maxItems, minLength,
// maxLength, enum, const, anyOf, allOf of one, $ref into the schema itself without recursion. Words that allow no text
// less, such as title, are not read.
#pragma once

#include <string>

#include "base/json.h"

namespace hone::serve::openai {

inline constexpr int kMostFree = 2;

// A Refusal, naming the place, for a word that is not read, a wrong value of one that is, recursion, and a schema
// whose expression is longer than a base::Pattern may be, or that stands in more than 4,096 places.
std::string pattern_of_schema(const base::Json& schema);

// It is that of an object with any members, whose values are nested kMostFree + 1 deep.
std::string pattern_of_any_object();

}  // namespace hone::serve::openai
