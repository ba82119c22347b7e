// Tokenized rows, in memory or in a mapped file, read alike.
//
// The file of an ExampleWriter, little-endian:
//
//   "HONETOK3"
//   of each example:  i32 ids[n], i32 labels[n] where it has its own, u8 supervised[n], zeros up to a multiple of 4
//   zeros up to a multiple of 8
//   of each example:  i64 row, i64 end (of its bytes, from the first example's first), i32 scored, i32 1 if it has labels
//   the key (what the tokens are made of, as text), the facts (JSON)
//   u64 bytes of all examples, u64 examples, u64 tokens, u32 bytes of the key, u32 bytes of the facts, u32 0,
//   u32 CRC-32C of all before it
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/example.h"

namespace hone::data {

// An Example that something else holds.
struct ExampleView {
  std::int64_t row = 0;
  std::span<const std::int32_t> ids;          // [T]
  std::span<const std::uint8_t> supervised;   // [T]
  std::span<const std::int32_t> labels = {};  // [T], or empty: the ids

  // What is to be predicted at token `i`, where it is a target.
  std::int32_t label(std::size_t i) const { return labels.empty() ? ids[i] : labels[i]; }
};
ExampleView view(const Example& example);
Example copy_of(const ExampleView& example);

// Where an example is, and what is known of it without its tokens.
struct ExampleEntry {
  std::int64_t row = 0;
  std::int64_t end = 0;
  std::int32_t scored = 0;      // targets; the first token is none
  std::int32_t own_labels = 0;  // 1: labels of its own lie beside its tokens
};

// Copies share the tokens, which are not changed. Of a mapped file only those pages are in memory that were read since release(), and
// the system may take these.
class Examples {
 public:
  Examples() = default;
  Examples(const std::vector<Example>& examples);  // NOLINT(google-explicit-constructor): a few
  Examples(std::initializer_list<Example> examples) : Examples(std::vector<Example>(examples)) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  ExampleView operator[](std::size_t index) const;  // valid while a copy of these examples lives
  // Of the entry alone: no token is read.
  std::int64_t tokens(std::size_t index) const;
  std::int64_t scored(std::size_t index) const;
  // take(example) for each, in order, each valid until the next; a mapped file's pages are released behind it.
  void for_each(const std::function<void(const ExampleView&)>& take) const;
  // The tokens of an example are not needed for now.
  void release(std::size_t index) const;

  // Example i is now what order[i] was; order: a permutation of all examples, which have one source.
  void reorder(const std::vector<std::int64_t>& order);
  void append(Examples more);  // `more` after these

 private:
  friend class ExampleWriter;
  friend struct TokenFile;
  struct Source;
  struct Part {
    std::shared_ptr<const Source> source;
    std::vector<std::uint32_t> order;  // empty: as the source has them
    std::size_t first = 0;             // example of these
  };
  struct Place {
    const Source* source;
    std::size_t index;
  };

  explicit Examples(std::shared_ptr<const Source> source);
  Place place(std::size_t index) const;

  std::vector<Part> parts_;
  std::size_t size_ = 0;
};

// A file that an ExampleWriter kept.
struct TokenFile {
  Examples examples;
  std::string facts;

  // nullopt: of another key, damaged, cut. Reads all of it once. UserError when it cannot be opened.
  static std::optional<TokenFile> open(const base::fs::path& path, const std::string& key);
};

}  // namespace hone::data
