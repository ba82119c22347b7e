// Shared by the text tests: temporary folders, the message of a UserError, small GGUF files.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"

namespace hone::text {

// A folder of the running test's own, removed when it ends.
class TempFolder {
 public:
  TempFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = base::fs::path(testing::TempDir()) /
            (std::string("hone_text_") + test->test_suite_name() + "_" + test->name());
    base::fs::remove_all(path_);
    base::fs::create_directories(path_);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { base::fs::remove_all(path_); }

  const base::fs::path& path() const { return path_; }
  base::fs::path write(const std::string& name, std::string_view contents) const {
    std::ofstream(path_ / name, std::ios::binary) << contents;
    return path_ / name;
  }

 private:
  base::fs::path path_;
};

inline std::string slurp(const base::fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// The message of the UserError that `body` throws; "" and a failed test when it throws none.
template <typename Body>
std::string user_error(Body&& body) {
  try {
    body();
  } catch (const base::UserError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no UserError";
  return "";
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

// Writes a GGUF (version 3) with metadata and no tensors.
class GgufWriter {
 public:
  GgufWriter& text(std::string_view key, std::string_view value) {
    begin(key, 8);
    put_string(value);
    return *this;
  }
  GgufWriter& u32(std::string_view key, std::uint32_t value) {
    begin(key, 4);
    put(value);
    return *this;
  }
  GgufWriter& boolean(std::string_view key, bool value) {
    begin(key, 7);
    put(static_cast<std::uint8_t>(value));
    return *this;
  }
  GgufWriter& texts(std::string_view key, const std::vector<std::string>& values) {
    begin(key, 9);
    put(std::uint32_t{8});
    put(std::uint64_t{values.size()});
    for (const auto& value : values) put_string(value);
    return *this;
  }
  GgufWriter& i32s(std::string_view key, const std::vector<std::int32_t>& values) {
    begin(key, 9);
    put(std::uint32_t{5});
    put(std::uint64_t{values.size()});
    for (const std::int32_t value : values) put(value);
    return *this;
  }
  std::string bytes() const {
    GgufWriter head;
    head.bytes_ = "GGUF";
    head.put(std::uint32_t{3});
    head.put(std::uint64_t{0});
    head.put(count_);
    return head.bytes_ + bytes_ + std::string(32, '\0');
  }

 private:
  void begin(std::string_view key, std::uint32_t type) {
    ++count_;
    put_string(key);
    put(type);
  }
  void put_string(std::string_view value) {
    put(std::uint64_t{value.size()});
    bytes_ += value;
  }
  template <typename T>
  void put(T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof value);
  }
  std::string bytes_;
  std::uint64_t count_ = 0;
};

}  // namespace hone::text
