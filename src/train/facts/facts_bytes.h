// Facts as bytes and back: what ranks of one build tell each other. Not a file format.
//
//   write_facts(out, facts);  facts = read_facts<Facts>(bytes);
//
// Numbers, enums, texts, JSON, pairs, vectors, trivially copyable structs; other structs say their fields in a function beside
// them, which both directions call:
//
//   template <typename Archive>
//   void fields(Archive& archive, BatchLoss& facts) { archive(facts.loss, facts.divisor); }
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace hone::train {

class FactsWriter {
 public:
  template <typename... Ts>
  void operator()(Ts&... values) {
    (write(values), ...);
  }
  // Not inlined: g++ 12 would see the string's own buffer copied beyond its end.
  [[gnu::noinline]] std::string take() { return std::move(out_); }

 private:
  void raw(const void* bytes, std::size_t count) { out_.append(static_cast<const char*>(bytes), count); }
  void count(std::size_t n) {
    const std::uint64_t wide = n;
    raw(&wide, sizeof wide);
  }
  void write(std::string& text) {
    count(text.size());
    out_ += text;
  }
  void write(base::Json& json) {
    std::string text = base::dump_json(json);
    write(text);
  }
  template <typename A, typename B>
  void write(std::pair<A, B>& pair) {
    write(pair.first);
    write(pair.second);
  }
  template <typename T>
  void write(std::vector<T>& values) {
    count(values.size());
    for (T& value : values) write(value);
  }
  template <typename T>
  void write(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      raw(&value, sizeof value);
    } else {
      fields(*this, value);
    }
  }

  std::string out_;
};

class FactsReader {
 public:
  explicit FactsReader(std::string_view bytes) : left_(bytes) {}

  template <typename... Ts>
  void operator()(Ts&... values) {
    (read(values), ...);
  }
  bool at_end() const { return left_.empty(); }

 private:
  void raw(void* to, std::size_t count) {
    base::require(left_.size() >= count, "train::FactsReader", "facts of the same build");
    std::memcpy(to, left_.data(), count);
    left_.remove_prefix(count);
  }
  std::size_t count() {
    std::uint64_t wide = 0;
    raw(&wide, sizeof wide);
    base::require(wide <= left_.size(), "train::FactsReader", "facts of the same build");
    return wide;
  }
  void read(std::string& text) {
    text.resize(count());
    raw(text.data(), text.size());
  }
  void read(base::Json& json) {
    std::string text;
    read(text);
    json = base::parse_json(text, "a rank's facts");
  }
  template <typename A, typename B>
  void read(std::pair<A, B>& pair) {
    read(pair.first);
    read(pair.second);
  }
  template <typename T>
  void read(std::vector<T>& values) {
    values.resize(count());
    for (T& value : values) read(value);
  }
  template <typename T>
  void read(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      raw(&value, sizeof value);
    } else {
      fields(*this, value);
    }
  }

  std::string_view left_;
};

template <typename Facts>
std::string write_facts(Facts facts) {
  FactsWriter out;
  out(facts);
  return out.take();
}

template <typename Facts>
Facts read_facts(std::string_view bytes) {
  Facts facts;
  FactsReader in(bytes);
  in(facts);
  base::require(in.at_end(), "train::read_facts", "facts of the same build");
  return facts;
}

}  // namespace hone::train
