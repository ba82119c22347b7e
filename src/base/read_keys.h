// What hone does with each key of a file, column of a row or attribute of an object that it is given.
//
// What hone reads and does not apply is refused or named. A kind of file has one table of its keys, next to
// its reader; the reader takes values through the table, so that a key without a row fails in the first test
// that reads it, and a key of the user's file without a row is told to the user.
// `tests/commands/read_keys_test.cpp` holds the tables against the keys that transformers, PEFT and TRL
// write.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hone::base {

enum class KeyUse {
  kApplied,  // its value has the effect that it has in the reference
  kNeutral,  // its value changes nothing: `why` says why
  kRefused,  // a value other than the reference's default is an error with `why`
};

struct ReadKey {
  std::string_view name;
  KeyUse use = KeyUse::kApplied;
  std::string_view why = {};  // of kNeutral and kRefused: a clause for messages, "hone never pads"
};

class ReadKeys {
 public:
  // `keys` has to outlive the table: a static array.
  constexpr ReadKeys(std::string_view kind, std::span<const ReadKey> keys) : kind_(kind), keys_(keys) {}

  std::string_view kind() const { return kind_; }  // "tokenizer_config.json", "columns of sft"
  std::span<const ReadKey> keys() const { return keys_; }
  const ReadKey* find(std::string_view name) const;  // null when no row has that name

  // The member `key` of `object`, or a null value where it is absent. InternalError when no row marks `key`,
  // or when its row says kNeutral: code that begins to read a key changes its row first.
  const Json& at(const Json& object, std::string_view key) const;

  // The members of `object` that no row marks, in the order of the file. Empty for anything but an object.
  std::vector<std::string> unmarked(const Json& object) const;

 private:
  std::string_view kind_;
  std::span<const ReadKey> keys_;
};

}  // namespace hone::base
