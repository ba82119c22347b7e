// What the fuzz targets share: one input is taken or refused, and everything else ends the process.
//
//   extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
//     return hone::fuzz::one_input(data, size, [](std::string_view text) { base::parse_json(text, "fuzz"); });
//   }
//
// A target is built twice: alone with libFuzzer (HONE_FUZZ in CMakeLists.txt, tests/fuzz/oss-fuzz), and together
// with all others in the test program test_fuzz, which mutates the same seeds (all_test.cpp).
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace hone::fuzz {

inline constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of an input; a longer one is not read

struct Outcomes {
  std::uint64_t taken = 0, refused = 0;
};
inline Outcomes& outcomes() {
  static Outcomes all;
  return all;
}

inline std::string& last_refusal() {
  static std::string sentence;
  return sentence;
}

[[noreturn]] inline void finding(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

// take(text) returns, or throws UserError: that is a refusal. Its sentence is neither empty nor endless.
template <class Take>
int one_input(const std::uint8_t* data, std::size_t size, const Take& take) {
  if (size > kMostBytes) return -1;  // libFuzzer: do not keep it
  try {
    take(std::string_view(reinterpret_cast<const char*>(data), size));
    ++outcomes().taken;
  } catch (const base::UserError& error) {
    ++outcomes().refused;
    last_refusal() = error.what();
    const std::size_t length = last_refusal().size();
    if (length == 0 || length > 100'000) finding("a refusal of " + std::to_string(length) + " bytes");
  } catch (const std::exception& error) {
    finding(std::string("neither taken nor refused: ") + error.what());
  }
  return 0;
}

// An input as a file, for readers that open one. The ending of its name may say what it is.
class InputFile {
 public:
  InputFile(std::string_view bytes, const std::string& ending)
      : path_(std::filesystem::temp_directory_path() / ("hone_fuzz_" + std::to_string(::getpid()) + ending)) {
    std::ofstream file(path_, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The text before the first line break, and what follows it.
inline std::pair<std::string_view, std::string_view> first_line(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return {text, {}};
  return {text.substr(0, end), text.substr(end + 1)};
}

}  // namespace hone::fuzz
