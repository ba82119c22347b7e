// Texts that are read again in another order: in memory while they are few, then in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/files/file.h"

namespace hone::data {

class ScratchFile;

class KeptTexts {
 public:
  struct Place {
    std::uint64_t begin = 0;
    std::uint32_t size = 0;
  };

  explicit KeptTexts(std::size_t most_memory = std::size_t{64} << 20);
  ~KeptTexts();
  KeptTexts(KeptTexts&&) noexcept;
  KeptTexts& operator=(KeptTexts&&) noexcept;

  Place add(std::string_view text);  // UserError: no room for the file
  // After the last add(). A copy, so that the file's pages are not kept in memory.
  std::string at(const Place& place);

 private:
  void flush();

  std::size_t most_memory_;
  std::string buffer_;  // what the file does not have
  std::uint64_t size_ = 0;
  std::unique_ptr<ScratchFile> file_;  // null: all is in the buffer
  std::optional<base::MappedFile> mapped_;
};

}  // namespace hone::data
